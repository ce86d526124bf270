"""The figures of a step, by hand."""

import json
import math

import pytest

from verl_rollout_dump.analysis.formatting import percent
from verl_rollout_dump.analysis.groups import groups_of_step
from verl_rollout_dump.analysis.stats import COLUMNS, collector, shown_columns, step_stats, summarize
from verl_rollout_dump.reader import open_dump
from verl_rollout_dump.reader.streams import open_stream


def stats_of(dump):
    return list(step_stats(open_dump(dump)))


def test_figures(write_step, make_record):
    given = [
        {"output": "", "score": 0, "finish_reason": "length", "reward": {"format": 1, "why": "x"}},
        {"output": "same", "score": 1, "finish_reason": "stop", "reward": {"format": 0}},
        {"output": "same", "score": 0.5, "finish_reason": "stop"},
        {"output": "other", "score": 0.5, "finish_reason": "length"},
    ]
    (stats,) = stats_of(write_step("3.jsonl", [make_record(3, i, **fields) for i, fields in enumerate(given)]))
    assert (stats.step, stats.records, stats.unreadable_lines) == (3, 4, 0)
    assert stats.score.mean == 0.5 and stats.score.min == 0 and stats.score.max == 1 and stats.score.count == 4
    assert stats.score.std == pytest.approx(math.sqrt(0.125))
    assert (stats.empty, stats.duplicated, stats.truncated) == (0.25, 0.5, 0.5)
    assert stats.response_length.mean == 13 / 4
    assert (stats.groups, stats.groups_without_signal, stats.without_signal) == (2, 1, 0.5)
    assert stats.extras.keys() == {"acc", "reward.format"}
    assert stats.extras["reward.format"].mean == 0.5
    assert stats.as_row()["extras.acc.mean"] == 0.5
    assert stats.as_row()["score.mean"] == 0.5


def test_no_prompt_twice_no_groups(write_step, make_record):
    (stats,) = stats_of(write_step("1.jsonl", [make_record(1, i, uid=i, input=f"p{i}") for i in range(3)]))
    assert (stats.groups, stats.without_signal, stats.truncated) == (0, None, None)


def test_hostile_values(write_step):
    (stats,) = stats_of(write_step("1.jsonl", b'{"score": NaN, "output": null}\n{"score": "0.5"}\n{"sc'))
    assert (stats.records, stats.unreadable_lines, stats.score.mean, stats.score.non_finite) == (2, 1, None, 1)


def test_summary_of_nothing():
    assert summarize([]).mean is None
    assert summarize([math.inf, 2.0]).mean == 2.0


def test_stats_of_many_files_are_in_order(small_dump):
    assert [(stats.step, stats.score.mean) for stats in stats_of(small_dump)] == [(1, 0.5), (2, 0.5), (10, 1.0)]


def test_only_the_files_of_the_steps_are_read(small_dump, monkeypatch):
    opened = []
    monkeypatch.setattr(collector, "open_stream", lambda path: opened.append(path.name) or open_stream(path))
    assert [stats.step for stats in step_stats(open_dump(small_dump), {2, 10})] == [2, 10]
    assert opened == ["2.jsonl", "10.jsonl"]


def test_groups(small_dump):
    groups = groups_of_step(open_dump(small_dump), 10)
    assert [(group.indexes, group.scores, group.has_signal) for group in groups] == [
        ([0, 1], [1.0, 1.0], False),
        ([2, 3], [1.0, 1.0], False),
    ]
    assert [group.has_signal for group in groups_of_step(open_dump(small_dump), 1)] == [True, True]


def test_the_columns_of_tables_are_figures_of_a_row(tmp_path):
    records = [{"input": "p", "output": "abc", "score": 1.0}, {"input": "p", "output": "abcde", "score": 1.0}]
    (tmp_path / "3.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (stats,) = step_stats(open_dump(tmp_path))
    row = stats.as_row()
    assert {column.name: column.value(stats) for column in COLUMNS}.items() <= row.items()
    assert {column.heading: column.text(stats) for column in COLUMNS} == {
        "step": "3",
        "records": "2",
        "score": "1.0000",
        "std": "0.0000",
        "min": "1.0000",
        "max": "1.0000",
        "length": "4",
        "null": "",
        "empty": "0 %",
        "doubled": "0 %",
        "cut": "",
        "no signal": "1/1",
    }


def test_a_group_with_a_null_score_is_neither_with_nor_without_signal(write_step):
    scores = {"p": [1, 1], "q": [1, None], "r": [0, 1], "s": [None, None], "t": ["high", 0]}
    records = [{"input": p, "output": "o", "score": s} for p, pair in scores.items() for s in pair]
    dump = write_step("1.jsonl", records)
    (stats,) = stats_of(dump)
    counts = (stats.groups, stats.groups_without_signal, stats.groups_undecided, stats.null_scores)
    assert (counts, stats.without_signal) == ((5, 1, 3, 4), 0.5)
    texts = {column.heading: column.text(stats) for column in shown_columns([stats])}
    assert (texts["no signal"], texts["null"]) == ("1/2 +3?", "4")
    assert [group.has_signal for group in groups_of_step(open_dump(dump), 1)] == [False, None, True, None, None]


def test_whitespace_is_empty(write_step):
    (stats,) = stats_of(write_step("1.jsonl", [{"output": text} for text in ("", " ", "\n\t", "\u00a0", "x")]))
    assert stats.empty == 0.8


@pytest.mark.parametrize(
    ("values", "share"),
    [
        (["False", "True"], 0.5),
        (["0", "1", "0", "0"], 0.25),
        ([[False], [True]], 0.5),
        ([0, 1.0], 0.5),
        (["maybe", None, float("nan")], None),
        ([None, True], 1.0),
    ],
)
def test_truth_of_text_and_lists(write_step, values, share):
    (stats,) = stats_of(write_step("1.jsonl", [{"output": "o", "truncated": value} for value in values]))
    assert stats.truncated == share


def test_slime_tells_truncation_by_status(write_step):
    records = [{"response": "r", "status": status} for status in ("completed", "truncated", "aborted", "other")]
    (stats,) = stats_of(write_step("1.jsonl", records))
    assert stats.truncated == 1 / 3


def test_uids_that_end_in_numbers_are_not_cut(write_step):
    records = [
        {"uid": uid, "input": "p", "output": "o", "score": s} for uid in ("a_2024_0", "a_2024_1") for s in (0, 1)
    ]
    dump = write_step("1.jsonl", records)
    assert [stats.groups for stats in stats_of(dump)] == [2]
    assert [group.indexes for group in groups_of_step(open_dump(dump), 1)] == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (1, "100 %"), (0.005, "0.5 %"), (0.0004, "<0.1 %"), (0.9996, ">99.9 %"), (0.996, "99.6 %"),
     (0.05, "5 %"), (0.5625, "56 %"), (0.944, "94.4 %"), (None, "")],
)  # fmt: skip
def test_percent_never_says_none_or_all_of_a_part(share, text):
    assert percent(share) == text
