"""Sets of steps as text, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verl_rollout_dump.storage.steps import format_steps, parse_steps


@pytest.mark.parametrize(
    ("steps", "text"), [(set(), ""), ({7}, "7"), ({1, 2, 3, 7}, "1-3,7"), ({10, 2, 11}, "2,10-11"), ({0, 1}, "0-1")]
)
def test_text(steps, text):
    assert format_steps(steps) == text


@given(st.sets(st.integers(0, 10_000)))
def test_round_trip(steps):
    assert parse_steps(format_steps(steps)) == steps
