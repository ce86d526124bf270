"""Conversion and encoding of records, beside `json.dumps` as verl 0.9.1 calls it.

    python tests/benchmarks/bench_conversion.py [--quick] [--json FILE]

Every side turns the same columns into lines, which are thrown away: writing them is another matter. Ours is
`Serializer.convert_column` for each column and `encode_record` for each record. verl's newer trainer calls
`json.dumps(entry, ensure_ascii=False, default=...)` with a function that knows numpy scalars and `tolist`; its older
one and verl-project/verl#6062 give `default=str`, which turns most of what is numpy's into text. The runs of all
sides are interleaved; shown are medians of the CPU time.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from verl_rollout_dump.config.schema import SerializationConfig, Strategy
from verl_rollout_dump.serialization import ConversionReport, Serializer, encode_record

Columns = dict[str, Any]
Side = Callable[[Columns], int]


def plain_columns(records: int) -> Columns:
    """Return ten columns as reward functions give them: plain values, arrays, lists of numpy scalars."""
    rng = np.random.default_rng(0)
    words = ["alpha", "beta", "gamma", "delta", "wrong: expected 42", "größer", "答案"]
    return {
        "acc": (rng.random(records) < 0.5).tolist(),
        "reward": rng.random(records).tolist(),
        "length": rng.integers(0, 4096, records).tolist(),
        "pred": [random.Random(row).choice(words) for row in range(records)],
        "uid": [f"{row:032x}" for row in range(records)],
        "format_ok": rng.random(records) < 0.9,
        "turns": rng.integers(1, 9, records),
        "entropy": rng.random(records).astype(np.float32),
        "judge": [np.float64(value) for value in rng.random(records)],
        "tests_passed": [np.int64(value) for value in rng.integers(0, 20, records)],
    }


def nested_columns(records: int) -> Columns:
    """Return two columns of nested dicts with numpy scalars in them."""
    rng = np.random.default_rng(1)
    details = [
        {
            "acc": np.bool_(row % 2),
            "score": np.float32(rng.random()),
            "parts": {"format": np.float64(rng.random()), "answer": np.float64(rng.random()), "n": np.int64(row)},
            "tags": ["math", "level-3"],
            "message": "expected 42, got 41",
        }
        for row in range(records)
    ]
    tools = [
        [{"name": "python", "ms": np.float32(rng.random()), "exit": np.int64(0), "out": "ok"} for _ in range(2)]
        for _ in range(records)
    ]
    return {"detail": details, "tools": tools}


def verl_default(value: Any) -> Any:
    """Do what verl 0.9.1's newer trainer does for a value that json does not know (re-stated)."""
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.floating):
        return float(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def by_json(default: Callable[[Any], Any]) -> Side:
    """Return verl's way: one dict per record, one `json.dumps` each."""

    def run(columns: Columns) -> int:
        rows = len(next(iter(columns.values())))
        size = 0
        for row in range(rows):
            entry = {name: values[row] for name, values in columns.items()}
            size += len(json.dumps(entry, ensure_ascii=False, default=default))
        return size

    return run


def by_us(strategy: Strategy) -> Side:
    """Return our way: columns first, then one `encode_record` each."""
    serializer = Serializer(SerializationConfig(strategy=strategy))

    def run(columns: Columns) -> int:
        report = ConversionReport()
        converted = [serializer.convert_column(name, values, report) for name, values in columns.items()]
        names = tuple(columns)
        size = 0
        for row in zip(*converted, strict=True):
            size += len(encode_record(dict(zip(names, row, strict=True))))
        return size

    return run


SIDES: dict[str, Side] = {
    "early_convert": by_us(Strategy.early_convert),
    "str_fallback": by_us(Strategy.str_fallback),
    "json, verl's default": by_json(verl_default),
    "json, default=str": by_json(str),
}


def unlike_columns(records: int) -> Columns:
    """Return the nested columns, some rows with keys or types of their own."""
    columns = nested_columns(records)
    for row in range(0, records, 7):
        columns["detail"][row]["error"] = None
        columns["detail"][row]["parts"] = np.float32(0.5)
    return columns


CASES: dict[str, Callable[[int], Columns]] = {
    "ten plain columns": plain_columns,
    "nested dicts": nested_columns,
    "unlike dicts": unlike_columns,
}
PEER = "json, verl's default"


def measure(columns: Columns, repeats: int) -> dict[str, float]:
    """Return the median seconds of every side, their runs interleaved."""
    gc.collect()
    gc.freeze()  # the garbage collector is not to walk the columns: beside a trainer's heap they are nothing
    seconds: dict[str, list[float]] = {name: [] for name in SIDES}
    for _ in range(repeats):
        for name, side in SIDES.items():
            start = time.process_time()
            side(columns)
            seconds[name].append(time.process_time() - start)
    return {name: statistics.median(runs) for name, runs in seconds.items()}


def results(records: int, repeats: int) -> list[dict[str, Any]]:
    """Return one row per case and side."""
    rows = []
    for case, build in CASES.items():
        columns = build(records)
        medians = measure(columns, repeats)
        for name, median in medians.items():
            rows.append(
                {
                    "case": case,
                    "side": name,
                    "records": records,
                    "ms": round(median * 1000, 2),
                    "values_per_second": round(records * len(columns) / median),
                    "times_verl": round(medians[PEER] / median, 2),
                }
            )
    return rows


def main() -> None:
    """Print the table, and write it as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer records and repeats")
    parser.add_argument("--json", type=Path, help="write the rows here")
    options = parser.parse_args()
    rows = results(records=512, repeats=3) if options.quick else results(records=4096, repeats=15)
    print(f"{'case':<20}{'side':<24}{'ms':>10}{'values/s':>14}{'x verl':>9}")
    for row in rows:
        print(
            f"{row['case']:<20}{row['side']:<24}{row['ms']:>10.2f}{row['values_per_second']:>14,}"
            f"{row['times_verl']:>9.2f}"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
