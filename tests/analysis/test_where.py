"""The expressions of --where."""

import pytest

from verl_rollout_dump.analysis.where import WhereError, parse_where

RECORD = {
    "score": 0.1, "acc": False, "output": 'wait, "no"', "n": 3, "gts": "4", "nothing": None,
    "reward": {"format": 1, "parts": {"a.b": 2}}, "rewards/total": 0.6, "tags": ["x", 1], "a.b": "dotted",
    "uid": "8f-1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("score < 0.2 and acc == false", True),
        ("score < 0.2 and acc = true", False),
        ("score >= .1 AND NOT acc", True),
        ("acc == 0", True),
        ("n == 3.0", True),
        ("n > -1e3", True),
        ("score < 0 or n == 3 and acc", False),
        ("(score < 1 or n == 3) and not (acc or nothing)", True),
        ("reward.format == 1", True),
        ("reward.parts.`a.b` == 2", True),
        ("a.b == 'dotted'", True),
        ("`rewards/total` > 0.5", True),
        ("reward", True),
        ("nothing == null and missing == null and missing.deeper == null", True),
        ("missing < 3", False),
        ("missing != 3", True),
        ("gts < 5", False),
        ("gts < '5'", True),
        ('output contains "wait"', True),
        (r'output contains "\"no\""', True),
        ("tags contains 'x' and tags contains 1", True),
        ("reward contains 'format'", True),
        ("missing contains 'x'", False),
        ("uid startswith '8f'", True),
        ("gts in ['4', '7']", True),
        ("n in [1, 2]", False),
        ("len(output) == 10 and len(tags) == 2", True),
        ("len(score) == null", True),
    ],
)
def test_meaning(text, holds):
    assert parse_where(text)(RECORD) is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        (r'output matches "wait \d+"', True),
        (r'output matches "^wait"', False),
        (r"""output matches '(?i)SAY "wait'""", True),
        (r'output matches "say \"wait"', True),
        (r'score matches "1"', False),
        (r"matches == 3 and matches < 4", True),
        (r'not output matches "x" and matches == 3', True),
    ],
)
def test_regular_expressions(text, holds):
    assert parse_where(text)({"output": 'I say "wait 12', "score": 1, "matches": 3}) is holds


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("", "found the end", 0),
        ("score <", "found the end", 7),
        ("score 3", "unexpected '3'", 6),
        ('output contains "wait', 'the closing " is missing', 16),
        ("(score", "expected ')', found the end", 6),
        ("score; drop", "unexpected ';'", 5),
        ("__import__('os')", "unexpected '('", 10),
        ("len score", "expected '(', found 'score'", 4),
        ("n in [1 2]", "expected ',', found '2'", 8),
        ('output matches "("', "not a regular expression: missing )", 15),
        ("output matches score", "expected a regular expression in quotes", 15),
        ("(" * 200, "nested more than 100 deep", 101),
        ("not " * 200, "nested more than 100 deep", 404),
    ],
)
def test_mistakes_are_told_with_their_place(text, message, position):
    with pytest.raises(WhereError) as error:
        parse_where(text)
    assert message in str(error.value)
    assert error.value.position == position
