"""Imports stay light, and lines do not hang on the hash seed: each checked in processes of its own."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]

LIGHT = """
import sys
import verl_rollout_dump.serialization
heavy = {"torch", "pandas", "pydantic", "transformers", "verl", "tensordict", "attrs", "PIL", "pyarrow"}
print(sorted(heavy & set(sys.modules)))
"""

HOSTILE = """
import datetime, decimal, json, sys
import numpy as np
from verl_rollout_dump.config.schema import SerializationConfig, Strategy
from verl_rollout_dump.serialization import ConversionReport, Serializer, encode_record

class Opaque:
    pass

values = {
    "set": {"b", "a", "c", 1, 2.5, None, (1, "x"), b"y"},
    "nested": [frozenset({frozenset({"q", "r"}), "s"}), {("k", 1): {"u", "v"}}],
    "opaque": [Opaque(), Opaque, len, lambda: 0, {Opaque(): 1, Opaque(): 2}, {frozenset({"b", "a"}): 1}],
    "numbers": [np.float32(0.1), np.arange(3), decimal.Decimal("1.0"), datetime.date(2026, 1, 2)],
}
for strategy in Strategy:
    serializer, report = Serializer(SerializationConfig(strategy=strategy)), ConversionReport()
    record = {name: serializer.convert_value(name, value, report) for name, value in values.items()}
    sys.stdout.buffer.write(encode_record(record) + b"\\n")
    print(json.dumps(report.as_list()), [warning.message for warning in report.warnings()], flush=True)
"""


def output_of(script: str, **environment: str) -> bytes:
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": paths, **environment}
    return subprocess.run([sys.executable, "-c", script], env=env, check=True, capture_output=True).stdout


def test_no_foreign_package_is_imported():
    assert output_of(LIGHT).strip() == b"[]"


def test_lines_and_reports_do_not_hang_on_the_hash_seed():
    outputs = {output_of(HOSTILE, PYTHONHASHSEED=seed) for seed in ("0", "1", "4242")}
    assert len(outputs) == 1
    assert b"0x" not in outputs.pop()
