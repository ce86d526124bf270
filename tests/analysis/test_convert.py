"""Other forms: values and types survive, and what has no one type is told."""

import csv
import json

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from record_tables import BAD_LINES, RANDOM_RECORDS, line, same

from verl_rollout_dump.analysis.convert import FORMATS, convert_dump
from verl_rollout_dump.reader import DumpReadError, arrow, open_dump
from verl_rollout_dump.reader.arrow import arrow_batches, arrow_schema
from verl_rollout_dump.serialization import decode_markers

parquet = pytest.importorskip("pyarrow.parquet")
RECORDS = [
    {"input": "p\u2028", "score": 1, "extra": {"a": [1, 2], "b": None}, "mixed": 1, "empty": {},
     "raw": {"$bytes": "AP8="}},
    {"input": "q", "score": 0.5, "extra": {"a": [], "c": "x"}, "mixed": "one", "empty": {}, "raw": None, "none": None},
    {"input": None, "score": None, "extra": None, "mixed": None, "empty": None, "raw": {"$bytes": ""}, "late": True},
]  # fmt: skip


@pytest.fixture
def dump(write_step):
    write_step("1.jsonl", RECORDS[:2])
    return open_dump(write_step("2.jsonl", RECORDS[2:]))


def test_parquet_keeps_nesting(dump, tmp_path):
    converted = convert_dump(dump, tmp_path / "x.parquet", "parquet")
    assert converted == (3, ["empty", "mixed"])
    table = parquet.read_table(tmp_path / "x.parquet")
    assert table["extra"].to_pylist() == [
        {"a": [1, 2], "b": None, "c": None},
        {"a": [], "b": None, "c": "x"},
        None,
    ]
    assert table["score"].to_pylist() == [1.0, 0.5, None]
    assert table["mixed"].to_pylist() == ["1", '"one"', None]
    assert table["empty"].to_pylist() == ["{}", "{}", None]
    assert table["raw"].to_pylist() == [b"\x00\xff", None, b""]
    assert table["late"].to_pylist() == [None, None, True]
    assert str(table.schema.field("none").type) == "string"


def test_datasets(dump, tmp_path):
    datasets = pytest.importorskip("datasets")
    convert_dump(dump, tmp_path / "set", "datasets")
    loaded = datasets.load_from_disk(str(tmp_path / "set"))
    assert loaded["input"][:] == ["p\u2028", "q", None]
    assert loaded[1]["extra"] == {"a": [], "b": None, "c": "x"}
    assert dump.to_datasets()[0]["score"] == 1.0


def test_arrow(dump, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    convert_dump(dump, tmp_path / "x.arrow", "arrow")
    with pyarrow.ipc.open_stream(tmp_path / "x.arrow") as stream:
        assert stream.read_all().equals(dump.to_arrow())


def test_csv(dump, tmp_path):
    convert_dump(dump, tmp_path / "x.csv", "csv")
    with (tmp_path / "x.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["input"] for row in rows] == ["p\u2028", "q", ""]
    assert json.loads(rows[0]["extra"]) == {"a": [1, 2], "b": None}
    assert rows[2]["late"] == "true"


def test_jsonl(dump, tmp_path):
    convert_dump(dump, tmp_path / "x.jsonl", "jsonl")
    rows = [json.loads(line) for line in (tmp_path / "x.jsonl").read_bytes().splitlines()]
    assert rows == [{"step": 1 + i // 2, **record} for i, record in enumerate(RECORDS)]


def test_pandas_and_polars(dump):
    pytest.importorskip("pandas")
    frame = dump.to_pandas()
    assert list(frame.columns) == [*RECORDS[0], "none", "late"]
    assert frame["extra"][0] == {"a": [1, 2], "b": None}
    assert frame["raw"][0] == b"\x00\xff"
    pytest.importorskip("polars")
    assert dump.to_polars()["score"].to_list() == [1.0, 0.5, None]


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.one_of(RANDOM_RECORDS.map(line), BAD_LINES), min_size=1, max_size=12))
@example(
    lines=[line({"score": [[], {"$bytes": ""}]}), line({"x": {"$bytes": "YQ=="}}), line({"y": [{"$bytes": "YQ=="}]})]
)
def test_parquet_and_back(write_step, tmp_path, lines):
    dump = open_dump(write_step("3.jsonl", b"".join(one + b"\n" for one in lines)))
    (tmp_path / "3.parquet").unlink(missing_ok=True)
    schema = arrow_schema(dump)
    assume(schema.columns)
    converted = convert_dump(dump, tmp_path / "3.parquet", "parquet")
    back = [row.record for row in open_dump(tmp_path / "3.parquet").rows()]
    assert (converted.records, converted.as_text) == (len(back), schema.as_text)
    for row, record in zip(dump.rows(), back, strict=True):
        for name in schema.columns:
            stored = row.record.get(name)
            assert same(stored, decode_markers(record.get(name)), name, schema.as_text), (name, stored)


@pytest.mark.parametrize(
    ("values", "cells", "as_text"),
    [
        ([2**60 + 1, 0.5], [str(2**60 + 1), "0.5"], ["x"]),
        ([2**53, 0.5], [2.0**53, 0.5], []),
        ([2**64 - 1, 1], [2**64 - 1, 1], []),
        ([2**64 - 1, -1], [str(2**64 - 1), "-1"], ["x"]),
        ([{"a": 1, "b": 1}, {"a": "s", "b": 2}], [{"a": "1", "b": 1}, {"a": '"s"', "b": 2}], ["x.a"]),
        ([[1, "s"], [None]], [["1", '"s"'], [None]], ["x[]"]),
        ([True, 1], ["true", "1"], ["x"]),
        ([float("nan"), "s"], ["NaN", '"s"'], ["x"]),
    ],
)
def test_mixed_values_lose_nothing(write_step, tmp_path, values, cells, as_text):
    dump = open_dump(write_step("1.jsonl", [{"x": value} for value in values]))
    assert convert_dump(dump, tmp_path / "x.parquet", "parquet").as_text == as_text
    assert parquet.read_table(tmp_path / "x.parquet")["x"].to_pylist() == cells


def test_bytes_of_parquet_are_bytes(write_step, tmp_path):
    dump = open_dump(write_step("1.jsonl", [{"raw": {"$bytes": "AP8="}, "n": 1.5}]))
    convert_dump(dump, tmp_path / "1.parquet", "parquet")
    assert list(open_dump(tmp_path / "1.parquet")) == [{"raw": b"\x00\xff", "n": 1.5}]


def test_pandas_rounds_nothing(write_step):
    pandas = pytest.importorskip("pandas")
    records = [{"n": 2**60 + 1, "u": 2**64 - 1, "x": 2**60 + 1}, {"n": None, "u": None, "x": 0.5}]
    frame = open_dump(write_step("1.jsonl", records)).to_pandas()
    assert [str(kind) for kind in frame.dtypes] == ["Int64", "UInt64", "object"]
    assert (frame["n"][0], frame["u"][0], list(frame["x"])) == (2**60 + 1, 2**64 - 1, [2**60 + 1, 0.5])
    assert frame["n"][1] is pandas.NA


def test_batches_are_bounded_by_bytes(write_step, monkeypatch):
    monkeypatch.setattr(arrow, "BYTES_PER_BATCH", 5_000)
    dump = open_dump(write_step("1.jsonl", [{"output": "x" * 2_000}] * 10))
    assert [batch.num_rows for batch in arrow_batches(dump, arrow_schema(dump))] == [3, 3, 3, 1]


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_is_overwritten(dump, tmp_path, form):
    (tmp_path / "there").write_text("precious")
    with pytest.raises(DumpReadError, match="nothing is overwritten"):
        convert_dump(dump, tmp_path / "there", form)
    assert (tmp_path / "there").read_text() == "precious"


def test_the_command_knows_the_form_by_the_name(run, small_dump, tmp_path):
    assert run("convert", small_dump, "-o", tmp_path / "x.parquet").exit_code == 0
    assert parquet.read_table(tmp_path / "x.parquet")["acc"].type == "bool"
    result = run("convert", small_dump, "-o", tmp_path / "x.xls")
    assert (result.exit_code, "unknown form 'xls'" in result.output) == (2, True)
