"""Sets of steps as text, such as `1-3,7`: how `run.json` and messages write them."""

from __future__ import annotations

from collections.abc import Iterable


def format_steps(steps: Iterable[int]) -> str:
    """Write a set of steps as ranges in ascending order; the empty set is the empty string."""
    ranges: list[list[int]] = []
    for step in sorted(set(steps)):
        if ranges and step == ranges[-1][1] + 1:
            ranges[-1][1] = step
        else:
            ranges.append([step, step])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def parse_steps(text: str) -> set[int]:
    """Read what `format_steps` wrote. Raises ValueError for any other text. Steps are not negative."""
    steps: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        steps.update(range(int(first), int(last or first) + 1))
    return steps
