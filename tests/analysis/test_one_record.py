"""One definition of a record: all commands count the same records of a hostile file."""

import json

import pytest

from verl_rollout_dump.analysis.check.observation import observe_files
from verl_rollout_dump.analysis.convert import convert_dump
from verl_rollout_dump.analysis.query import run_query
from verl_rollout_dump.analysis.repair import repair_dump
from verl_rollout_dump.analysis.selection import Selection
from verl_rollout_dump.analysis.stats import step_stats
from verl_rollout_dump.reader import Follower, open_dump

GOOD = b'{"input": "p", "output": "o", "score": 1}\n'
HOSTILE = [
    (b"", 1, 0),
    (b"garbage\n", 1, 1),
    (b'{"input": "p", "out', 1, 1),
    (b'{"output": "\xe9"}\n', 2, 0),  # Latin-1
    (b'{"score": NaN}\n', 2, 0),
    (b"\xef\xbb\xbf" + GOOD, 2, 0),
    (b"\n \t\n\r\n", 1, 0),
    (b"[1]\n3\nnull\n", 1, 3),
    (b'{"score": 1}\r\n', 2, 0),
    (b'{"a": 1, "a": 2}\n', 2, 0),
    (b'{"a": "\\ud800"}\n', 2, 0),
    (b"{}\n", 2, 0),
    (b'{"x": ' + b"[" * 1100 + b"]" * 1100 + b"}\n", 1, 1),
    (b'{"n": 123456789012345678901234567890}\n', 2, 0),
    (b"\x00\n" + GOOD, 2, 1),
    (b'{"score": 1}', 2, 0),
]


@pytest.mark.parametrize(("content", "records", "unreadable"), HOSTILE)
def test_all_commands_count_the_same(write_step, tmp_path, content, records, unreadable, run):
    pytest.importorskip("duckdb")
    path = write_step("1.jsonl", GOOD + content)
    dump = open_dump(path)
    (stats,) = step_stats(open_dump(path))
    assert (stats.records, stats.unreadable_lines) == (records, unreadable)
    assert (len(dump), len(dump.problems)) == (records, unreadable)
    assert len(list(dump.rows())) == len(list(Selection("1").rows(dump))) == records
    assert run_query(dump, "select count(*) from rollouts").cursor.fetchall() == [(records,)]
    assert [seen.records for seen in observe_files(dump.files)] == [records]
    assert repair_dump(dump, tmp_path / "clean").records == records
    assert [convert_dump(dump, tmp_path / f"x.{form}", form).records for form in ("jsonl", "csv", "parquet")] == [
        records
    ] * 3
    shown = run("show", path, "--json", "--limit", 1000).stdout.splitlines()
    assert len([json.loads(line) for line in shown]) == records
    assert len(list(Follower(path).poll())) == records
