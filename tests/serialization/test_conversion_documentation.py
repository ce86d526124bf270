"""The table of rules in docs/conversion.md is the one in the code, and its examples are computed again."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("tensordict")
from conversion_checks import rules_of
from conversion_examples import PAGE, page, written

from verl_rollout_dump.serialization.table import RULES


def test_the_page_is_up_to_date():
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run: python tests/serialization/conversion_examples.py"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_example_of_a_rule_follows_it(rule):
    _, report = written(rule)
    assert not rule.counted or rule.name in rules_of(report)


def test_names_are_unique():
    assert len({rule.name for rule in RULES}) == len(RULES)
    types = [name for rule in RULES for name in rule.types]
    assert len(set(types)) == len(types)
