"""The exit codes are those of the table, which stands in `--help` and in docs/reading.md."""

import re
from pathlib import Path

import pytest

from verl_rollout_dump.cli import tail
from verl_rollout_dump.cli.exit_codes import DONE, INTERRUPTED, MEANINGS, MISTAKE, NOTHING_FOUND, WRONG

PAGE = Path(__file__).parents[2] / "docs" / "reading.md"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["show"], DONE),
        (["groups", "--no-signal", "--step", "1"], DONE),
        (["check"], DONE),
        (["show", "--nonsense"], MISTAKE),
        (["show", "--where", "score <"], MISTAKE),
        (["show", "--where", "score > 7"], NOTHING_FOUND),
        (["show", "--step", "77"], NOTHING_FOUND),
        (["stats", "--step", "77"], NOTHING_FOUND),
        (["groups", "--where", "score > 7"], NOTHING_FOUND),
        (["convert", "-o", "x.jsonl", "--where", "score > 7"], NOTHING_FOUND),
        (["report", "-o", "x.html", "--uid", "nobody"], NOTHING_FOUND),
    ],
)
def test_codes(run, small_dump, tmp_path, monkeypatch, arguments, code):
    monkeypatch.chdir(tmp_path)
    command, *options = arguments
    result = run(command, small_dump, *options)
    assert result.exit_code == code, result.output
    assert list(tmp_path.glob("x.*")) == []


def test_no_dump_and_a_damaged_one(run, write_step, tmp_path):
    assert run("show", tmp_path / "nowhere").exit_code == MISTAKE
    assert run("check", write_step("1.jsonl", b'{"a": NaN}\n')).exit_code == WRONG


def test_ctrl_c(run, small_dump, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(tail, "written_steps", interrupted)
    result = run("tail", small_dump, "-f")
    assert (result.exit_code, "Traceback" in result.output) == (INTERRUPTED, False)


def test_the_table_stands_in_the_help_and_on_the_page(run):
    words = " ".join(run("--help").stdout.split())
    rows = dict(re.findall(r"^\| (\d+) \| (.*) \|$", PAGE.read_text(), re.MULTILINE))
    assert rows == {str(code): meaning for code, meaning in MEANINGS.items()}
    assert [code for code, meaning in MEANINGS.items() if f"{code}: {meaning.replace('`', '')}" not in words] == []


def test_tail_says_that_it_waits(run, tmp_path, monkeypatch):
    monkeypatch.setattr(tail, "written_steps", lambda *arguments: iter(()))
    missing = tmp_path / "later"
    expected = f"verl-rollout-dump: {missing} does not exist yet; waiting for it (Ctrl-C ends)\n"
    assert run("tail", "-f", missing).stderr == expected
