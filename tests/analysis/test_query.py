"""`query` answers what a plain Python loop over the records answers."""

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from record_tables import BAD_LINES, RANDOM_RECORDS, line, same

from verl_rollout_dump.analysis.query import QuerySchemaPlanner, column_names, query_columns, run_query
from verl_rollout_dump.analysis.selection import with_step
from verl_rollout_dump.reader import DumpReadError, open_dump

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")


def answer(dump, sql):
    return run_query(open_dump(dump), sql).cursor.fetchall()


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.one_of(RANDOM_RECORDS.map(line), BAD_LINES), max_size=12))
@example(
    lines=[line({"score": [[], {"$bytes": ""}]}), line({"x": {"$bytes": "YQ=="}}), line({"y": [{"$bytes": "YQ=="}]})]
)
def test_a_query_equals_a_plain_loop(write_step, lines):
    dump = open_dump(write_step("3.jsonl", b"".join(one + b"\n" for one in lines)))
    records = [with_step(row) for row in dump.rows()]
    assert answer(dump.path, "select count(*) from rollouts") == [(len(records),)]
    columns = query_columns(dump)
    as_text = QuerySchemaPlanner().plan(columns).as_text
    rows = answer(dump.path, "select * from rollouts")
    assert len(rows) == len(records)
    for record, row in zip(records, rows, strict=True):
        for name, cell in zip(columns, row, strict=True):
            assert same(record.get(name), cell, name, as_text), (name, record.get(name), cell)
    for name, column in zip(columns, column_names(columns), strict=True):
        known = sum(record.get(name) is not None for record in records)
        quoted = column.replace('"', '""')
        assert answer(dump.path, f'select count("{quoted}") from rollouts') == [(known,)]


@pytest.mark.parametrize(
    ("records", "sql", "rows"),
    [
        ([{"acc": 0}] * 21_000 + [{"acc": 0.5}] * 4_000, "select sum(acc) from rollouts", [(2000.0,)]),
        ([{"a": 1}] * 21_000 + [{"late": "x"}], "select count(late) from rollouts", [(1,)]),
        ([{"gts": 1}] * 21_000 + [{"gts": "seven"}], "select gts from rollouts where gts like '%s%'", [('"seven"',)]),
        ([{"gts": "01-02-2024"}, {"gts": "12:30:00"}], "select gts from rollouts", [("01-02-2024",), ("12:30:00",)]),
        ([{"filename": "f", "": 3}], 'select filename, "(empty name)" from rollouts', [("f", 3)]),
        ([{"n": 2**64 - 1}, {"n": None}], "select n from rollouts", [(2**64 - 1,), (None,)]),
        ([{"x": {"a": 1}}, {"x": {"a": "b", "c": 2}}], "select x.a, x.c from rollouts", [("1", None), ('"b"', 2)]),
        ([{"output": "o"}], "select step from rollouts where false", []),
        ([{"output": "o"}], "select r.step from rollouts r join rollouts s using (step)", [(1,)]),
    ],
)  # fmt: skip
def test_types_come_from_all_records(write_step, records, sql, rows):
    assert answer(write_step("1.jsonl", records), sql) == rows


def test_a_folder_named_like_a_field_is_no_column(tmp_path):
    folder = tmp_path / "seed=7"
    folder.mkdir()
    (folder / "1.jsonl").write_text('{"seed": 100}\n')
    assert answer(folder, "select seed from rollouts") == [(100,)]


def test_unreadable_lines_are_no_rows_and_latin_1_is_one(write_step):
    dump = write_step("1.jsonl", b'{"gts": "\xe9", "score": 1}\n{"score"\n{"score": 2}\n[3]\n')
    assert answer(dump, "select gts, score from rollouts") == [("\ufffd", 1), (None, 2)]


def test_only_the_columns_that_a_query_reads_are_loaded(small_dump):
    result = run_query(open_dump(small_dump), "select avg(score) from rollouts where step = 1")
    assert result.cursor.fetchall() == [(0.5,)]
    other = result.cursor.execute("select count(output), count(score) from rollouts").fetchall()
    assert other == [(0, 12)]


def test_notes_on_columns(run, write_step):
    dump = write_step("1.jsonl", [{"score": 1, "Score": 2, "x": 1}, {"x": "a"}])
    result = run("query", dump, "select Score_2, x from rollouts", "--json")
    assert json.loads(result.stdout) == [{"Score_2": 2, "x": "1"}, {"Score_2": None, "x": '"a"'}]
    assert "the field 'Score' is the column 'Score_2'" in result.stderr
    assert "x is JSON text, since its values have several types" in result.stderr
    assert "x is JSON" not in run("query", dump, "select score from rollouts").stderr


def test_a_mistake_is_one_message(small_dump):
    with pytest.raises(DumpReadError, match="query: Binder Error"):
        answer(small_dump, "select nothing from rollouts")


def test_sums_beyond_64_bits_are_printed(run, write_step):
    dump = write_step("1.jsonl", [{"n": 2**63 - 1}] * 3)
    assert json.loads(run("query", dump, "select sum(n) as s from rollouts", "--json").stdout) == [
        {"s": 3 * (2**63 - 1)}
    ]
