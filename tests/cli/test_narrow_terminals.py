"""In a narrow terminal columns are left out; numbers and the values of overrides stay whole."""

import json
import re

import pytest
from typer.testing import CliRunner

from verl_rollout_dump.cli import app
from verl_rollout_dump.reader.discovery import short_overrides


def printed(columns, *arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": str(columns)})
    assert result.exit_code == 0, result.output
    table = [line for line in result.stdout.splitlines() if line[:1] in "┏┃┡│└"]
    assert max(map(len, table)) <= columns
    return result.stdout


def headings(text):
    return [name.strip() for name in re.search("┃(.*)┃", text)[1].split("┃")]


@pytest.mark.parametrize(
    ("columns", "shown", "left_out"),
    [
        (110, ["step", "records", "score", "std", "min", "max", "length", "empty", "doubled", "no signal"], None),
        (80, ["step", "records", "score", "std", "length", "empty", "doubled", "no signal"], "min, max"),
        (50, ["step", "records", "score", "length", "no signal"], "std, min, max, empty, doubled"),
        (30, ["step", "score", "length"], "records, std, min, max, empty, doubled, no signal"),
    ],
)
def test_stats(small_dump, columns, shown, left_out):
    text = printed(columns, "stats", small_dump)
    assert headings(text) == shown
    assert "0.5000" in text and "1.0000" in text
    assert "…" not in text[: text.index("└")]
    said = re.search(r"Not shown in \d+ columns: (.*)", text)
    assert (said and said[1]) == left_out


@pytest.mark.parametrize(
    ("command", "shown"),
    [("groups", ["step", "index", "scores", "prompt"]), ("summary", ["step", "records", "mean score"])],
)
def test_other_tables(small_dump, command, shown):
    assert headings(printed(36, command, small_dump)) == shown


def test_diff(small_dump):
    text = printed(44, "diff", small_dump, "--step-a", "1", "--step-b", "10")
    assert headings(text) == ["B - A", "prompt"]
    assert "│ +0.5000 │ prompt 0 " in text


def test_a_sweep_shows_both_values(tmp_path, make_record):
    common = "actor_rollout_ref.actor.optim"
    for job, rate in (("0", "1e-6"), ("1", "1e-5")):
        hydra = tmp_path / job / ".hydra"
        hydra.mkdir(parents=True)
        long = f"- {common}.lr_warmup_steps_ratio=0.{job}\n- actor_rollout_ref.model.path=/models/shared/folder/{job}\n"
        (hydra / "overrides.yaml").write_text(f"{long}- {common}.lr={rate}\n")
        (tmp_path / job / "1.jsonl").write_text(json.dumps(make_record(1, 0)) + "\n")
    text = printed(120, "ls", tmp_path)
    assert "optim.lr=1e-6" in text and "optim.lr=1e-5" in text
    narrow = printed(60, "ls", tmp_path)
    assert headings(narrow) == ["dump", "steps", "last score", "overrides"]
    assert "optim.lr=1e-6" in narrow and "optim.lr=1e-5" in narrow


def test_short_overrides():
    assert short_overrides(
        [
            ["a.actor.optim.lr=1e-6", "a.critic.optim.lr=1e-5", "data.files=/data/sets/with/long/names/x", "~b.c"],
            ["a.actor.optim.lr=1e-5", "a.critic.optim.lr=1e-6", "data.files=/data/sets/with/long/names/y", "n=1"],
        ]
    ) == [
        ["actor.optim.lr=1e-6", "critic.optim.lr=1e-5", "data.files=…/x", "~b.c"],
        ["actor.optim.lr=1e-5", "critic.optim.lr=1e-6", "data.files=…/y", "n=1"],
    ]
