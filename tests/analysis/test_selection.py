"""The same options select the same records for every command and table."""

import json

import pytest

from verl_rollout_dump.analysis.groups import groups_of_step
from verl_rollout_dump.analysis.selected_dump import select
from verl_rollout_dump.analysis.selection import Selection
from verl_rollout_dump.analysis.stats import step_stats
from verl_rollout_dump.reader import open_dump

SELECTIONS = [
    ({"where": "acc == true", "step": "1-2"}, ["1.1", "1.3", "2.1", "2.3"]),
    ({"worst": 3}, ["2.0", "2.2", "1.0"]),
    ({"best": 2, "where": "score > 0", "step": "2"}, ["2.1", "2.3"]),
    ({"uid": "uid2p1", "limit": 1}, ["2.2"]),
    ({"grep": r"prompt 1|\.0$", "step": "1"}, ["1.0", "1.2", "1.3"]),
]


@pytest.mark.parametrize(("selection", "expected"), SELECTIONS)
def test_rows_and_tables(small_dump, selection, expected):
    pytest.importorskip("pyarrow")
    dump = open_dump(small_dump)
    names = [f"response {name}" for name in expected]
    assert [row.record["output"] for row in Selection(**selection).rows(dump)] == names
    selected = select(dump, **selection)
    assert [record["output"] for record in selected.records()] == names
    assert selected.to_arrow()["output"].to_pylist() == names
    assert (len(selected), len(selected.columns("score")["score"])) == (len(names), len(names))


@pytest.mark.parametrize(("selection", "expected"), SELECTIONS)
def test_commands(run, small_dump, tmp_path, selection, expected):
    options = [part for name, value in selection.items() for part in (f"--{name}", str(value))]
    shown = run("show", small_dump, "--json", *options)
    assert [json.loads(line)["record"]["output"] for line in shown.stdout.splitlines()] == [
        f"response {name}" for name in expected
    ]
    assert run("convert", small_dump, "-o", tmp_path / "x.jsonl", *options).exit_code == 0
    lines = (tmp_path / "x.jsonl").read_text().splitlines()
    assert [json.loads(line)["output"] for line in lines] == [f"response {name}" for name in expected]


def test_a_seed_gives_the_same_records(small_dump):
    dump = open_dump(small_dump)

    def sampled(seed):
        selection = Selection(random=3, seed=seed)
        first, second = ([(row.step, row.index) for row in selection.rows(dump)] for _ in range(2))
        assert first == second
        return first

    assert sampled(1) == sampled(1)
    assert len({tuple(sampled(seed)) for seed in range(20)}) > 1
    assert len(sampled(None)) == 3


def test_figures_of_selected_records(small_dump):
    selected = select(open_dump(small_dump), where="acc == true")
    assert [(stats.step, stats.records, stats.score.mean) for stats in step_stats(selected)] == [
        (1, 2, 1.0),
        (2, 2, 1.0),
        (10, 4, 1.0),
    ]
    assert selected.scores(1).tolist()[1::2] == [1.0, 1.0] and len(selected.scores(1)) == 4
    assert [group.indexes for group in groups_of_step(selected, 10) if len(group.indexes) > 1] == [[0, 1], [2, 3]]
    assert [group.indexes for group in groups_of_step(selected, 1) if len(group.indexes) > 1] == []


def test_the_best_are_not_all_of_one_prompt_or_step(write_step, make_record):
    for step in (1, 2):
        dump = write_step(f"{step}.jsonl", [make_record(step, index, score=1.0) for index in range(4)])
    for selection in (Selection(best=8), Selection(best=8, where="score == 1")):
        assert [(row.step, row.index) for row in selection.rows(open_dump(dump))] == [
            (2, 0), (2, 2), (2, 1), (2, 3), (1, 0), (1, 2), (1, 1), (1, 3),
        ]  # fmt: skip


def test_groups(run, small_dump):
    def groups(*options):
        result = run("groups", small_dump, "--json", *options)
        return [(group["step"], group["indexes"], group["mean"]) for group in json.loads(result.stdout)]

    assert groups("--step", "1-10", "--best", "1") == [(10, [0, 1], 1.0)]
    assert groups("--step", "1-10", "--worst", "2") == [(1, [0, 1], 0.5), (1, [2, 3], 0.5)]
    assert groups("--step", "1-10", "--limit", "1") == [(1, [0, 1], 0.5)]
    assert groups("--where", "gts == '1'") == [(10, [2, 3], 1.0)]
    assert groups("--step", "1-10", "--random", "2", "--seed", "5") == groups(
        "--step", "1-10", "--random", "2", "--seed", "5"
    )


def test_report(run, small_dump, tmp_path):
    pytest.importorskip("vl_convert")
    result = run("report", small_dump, "-o", tmp_path / "r.html", "--where", "acc == true", "--step", "1-2")
    assert result.exit_code == 0, result.output
    assert "4 records of steps 1-2" in (tmp_path / "r.html").read_text()
