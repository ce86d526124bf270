"""Figures that cannot be known are blank and say why; options choose the fields; skipped lines are said once."""

import json

import pytest

SKIPPED = "verl-rollout-dump: 2 unreadable lines were skipped; details: verl-rollout-dump check "


@pytest.fixture
def unknown(write_step):
    """Two groups of two, whose score and response have names of their own."""
    records = [{"question": f"q{i // 2}", "text": "x" * i, "result": {"points": i % 2}} for i in range(4)]
    return write_step("1.jsonl", records)


@pytest.fixture
def damaged(write_step, make_record):
    good = b"".join(json.dumps(make_record(1, index)).encode() + b"\n" for index in range(4))
    return write_step("1.jsonl", good + b"garbage\n[1]\n")


def test_no_score_known(run, unknown):
    (stats,) = json.loads(run("stats", unknown, "--json").stdout)
    assert (stats["score"]["count"], stats["score"]["mean"]) == (0, None)
    assert (stats["groups"], stats["groups_without_signal"], stats["without_signal"]) == (2, None, None)
    assert (stats["empty"], stats["duplicated"], stats["response_length"]["mean"]) == (None, None, None)
    shown = run("stats", unknown).stdout
    assert "score is blank: no field is a score (looked for score, reward, rewards/total, total_reward)" in shown
    assert "name one with --response" in shown
    assert "without signal" not in run("tail", unknown).stdout


@pytest.mark.parametrize("arguments", [["show", "--worst", 2], ["diff", "--step-a", 1, "--step-b", 1]])
def test_an_order_by_unknown_scores_is_refused_with_the_reason(run, unknown, arguments):
    command, *options = arguments
    result = run(command, unknown, *options)
    assert (result.exit_code, "no score is known: no field is a score" in result.stderr) == (2, True)


def test_groups_without_scores_say_why(run, unknown):
    shown = run("groups", unknown).stdout
    assert "2 groups; no score is known: no field is a score" in shown
    assert "without signal" not in shown


def test_the_report_has_no_line_for_unknown_scores(run, unknown, tmp_path):
    pytest.importorskip("vl_convert")
    assert run("report", unknown, "-o", tmp_path / "r.html").exit_code == 0
    page = (tmp_path / "r.html").read_text()
    assert "no field is a score" in page
    assert "<img" in page and 'alt="score' not in page and "Worst of" not in page


def test_options_make_it_known(run, unknown):
    options = ("--score", "result.points", "--response", "text")
    (stats,) = json.loads(run("stats", unknown, "--json", *options).stdout)
    assert (stats["score"]["mean"], stats["groups_without_signal"], stats["unknown"]) == (0.5, 0, {})
    assert (stats["empty"], stats["response_length"]["mean"]) == (0.25, 1.5)
    assert json.loads(run("show", unknown, "--best", 1, "--json", *options).stdout)["index"] == 1
    (first, _) = json.loads(run("groups", unknown, "--json", *options).stdout)
    assert (first["scores"], first["has_signal"]) == ([0.0, 1.0], True)
    assert json.loads(run("stats", unknown, "--json", "--group", "text").stdout)[0]["groups"] == 0


def test_an_unknown_choice_is_refused(run, unknown):
    result = run("stats", unknown, "--score", "result.pints")
    assert (result.exit_code, "did you mean result.points" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [["stats"], ["groups"], ["show"], ["show", "--best", 1], ["ls"], ["summary"], ["tail"], ["stats", "--json"],
     ["convert", "-o", "x.jsonl"], ["convert", "-o", "x.csv"]],
)  # fmt: skip
def test_unreadable_lines_are_said_once_on_standard_error(run, damaged, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command, *options = arguments
    result = run(command, damaged, *options)
    assert (result.exit_code, result.stderr) == (0, f"{SKIPPED}{damaged}\n")


def test_report_says_unreadable_lines(run, damaged, tmp_path):
    pytest.importorskip("vl_convert")
    assert run("report", damaged, "-o", tmp_path / "r.html").stderr == f"{SKIPPED}{damaged}\n"


def test_no_word_about_a_whole_dump(run, small_dump):
    assert run("stats", small_dump).stderr == ""
