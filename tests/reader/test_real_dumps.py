"""Dumps of real trainings (two steps of a tiny model on verl 0.9.1): verl's own writers, v0 and v1, and ours."""

import json
from pathlib import Path

import pytest

from verl_rollout_dump.analysis.check import check_dump
from verl_rollout_dump.analysis.stats import step_stats
from verl_rollout_dump.reader import open_dump

DUMPS = Path(__file__).parent / "real_dumps"
RECORDS = {"verl_v0": 16, "verl_v1": 8, "ours": 16}  # of a step


@pytest.fixture(params=["verl_v0", "verl_v1", "ours"])
def real_dump(request):
    return DUMPS / request.param


def test_every_record_is_what_json_reads(real_dump):
    dump = open_dump(real_dump)
    lines = [line for step in dump.steps for line in (real_dump / f"{step}.jsonl").read_text().split("\n") if line]
    assert list(dump) == [json.loads(line) for line in lines]
    assert [dump.record(2, index) for index in range(len(dump) // 2)] == list(dump.records([2]))


def test_they_are_whole(real_dump):
    assert check_dump(open_dump(real_dump)) == []


def test_groups(real_dump):
    """4 prompts a step, each with 2 (verl_v1) or 4 rollouts; v0 writes no uid, so the prompt tells them apart."""
    for stats in step_stats(open_dump(real_dump)):
        assert (stats.groups, stats.records) == (4, RECORDS[real_dump.name])


def test_all_commands_read_them(run, real_dump, tmp_path):
    for arguments in (
        ("ls", real_dump),
        ("summary", real_dump),
        ("show", real_dump, "--worst", 2),
        ("stats", real_dump),
        ("check", real_dump, "--strict"),
        ("tail", real_dump),
        ("groups", real_dump),
        ("diff", real_dump, DUMPS / "ours"),
        ("repair", real_dump, "-o", tmp_path / "clean"),
        ("convert", real_dump, "-o", tmp_path / "x.csv"),
    ):
        result = run(*arguments)
        assert result.exit_code == 0, (arguments, result.output)
    assert (tmp_path / "clean" / "1.jsonl").read_bytes() == (real_dump / "1.jsonl").read_bytes()


def test_pandas(real_dump):
    pytest.importorskip("pandas")
    frame = open_dump(real_dump).to_pandas()
    assert set(frame["step"]) == {1, 2}
    assert frame["score"].dtype == "float64"
