"""`make bench BENCH_ARGS=--quick`: the harness measures all that it should. How fast anything is, no test says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("verl")
pytestmark = pytest.mark.verl

BENCHMARKS = Path(__file__).parent


def results_of(name, folder):
    command = [sys.executable, BENCHMARKS / f"bench_{name}.py", "--quick", "--json", folder / "results.json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=500, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "results.json").read_text())


def column(rows, name):
    return [row[name] for row in rows]


def test_the_whole_dump_beside_verl(tmp_path):
    results = results_of("dump", tmp_path)
    both = ["verl", "ours"]
    assert column(results["whole"], "side") == column(results["busy"], "side") == both
    assert column(results["memory"], "side") == both
    assert column(results["v1"], "side") == [*both, "everything"]
    assert column(results["tokens"], "side") == ["json.dumps of tolist()", "ours"] * 2
    assert column(results["tokens"], "what") == ["file"] * 2 + ["arrays alone"] * 2
    assert column(results["compression"], "compression") == ["none", "zstd", "gzip"]
    assert column(results["growth"], "tokens") == [1_000, 10_000, 100_000]
    verl, ours = results["whole"]
    assert verl["tokens"] == ours["tokens"] > 20_000
    for kind in ("cpu_ms", "call_ms", "done_ms"):
        assert 0 < ours[kind]["min"] <= ours[kind]["median"] <= ours[kind]["max"]
    plain, zstd, gzip = column(results["compression"], "file_mb")
    assert zstd < plain and gzip < plain


def test_decoding_beside_the_tokenizer(tmp_path):
    results = results_of("decode", tmp_path)
    assert column(results["rows"], "side") == [
        "verl: batch_decode, padded",
        "decode, row by row",
        "decode_batch, unpadded",
        "ours: table",
    ]


def test_conversion_beside_json(tmp_path):
    rows = results_of("conversion", tmp_path)
    assert set(column(rows, "side")) == {"early_convert", "str_fallback", "json, verl's default", "json, default=str"}
    assert all(row["values_per_second"] > 0 for row in rows)


def test_reading(tmp_path):
    results = results_of("reading", tmp_path)
    assert {"first record, index there", "ls, index there"} <= set(column(results["small"], "what"))
