"""The lines of a step's list, and their orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from verl_rollout_dump.analysis.groups import Group


@dataclass(frozen=True)
class RecordLine:
    """A record in the list: its index in the step, its score, the number of its group from 1."""

    index: int
    score: float | None
    group: int


@dataclass(frozen=True)
class GroupLine:
    """The heading of a group in the list; `number` counts the groups of the step from 1."""

    number: int
    group: Group


ListLine = RecordLine | GroupLine
_Lengths = Callable[[], Sequence[int]]  # the lengths of the responses by index; reads the step


def _as_they_are(lines: list[ListLine], lengths: _Lengths) -> list[ListLine]:
    """Groups in the order of the file."""
    return lines


def _score_order(line: ListLine, sign: float) -> tuple[bool, float]:
    """Return the sort key of a record by score; records without a score come last."""
    score = line.score if isinstance(line, RecordLine) else None
    return score is None, sign * (score or 0.0)


def _worst_first(lines: list[ListLine], lengths: _Lengths) -> list[ListLine]:
    """Lowest scores first."""
    return sorted(lines, key=lambda line: _score_order(line, 1.0))


def _best_first(lines: list[ListLine], lengths: _Lengths) -> list[ListLine]:
    """Highest scores first."""
    return sorted(lines, key=lambda line: _score_order(line, -1.0))


def _by_length(lines: list[ListLine], lengths: _Lengths, sign: int) -> list[ListLine]:
    known = lengths()

    def length_of(line: ListLine) -> int:
        has_length = isinstance(line, RecordLine) and line.index < len(known)
        return sign * known[line.index] if has_length and isinstance(line, RecordLine) else 0

    return sorted(lines, key=length_of)


def _longest_first(lines: list[ListLine], lengths: _Lengths) -> list[ListLine]:
    """Longest responses first."""
    return _by_length(lines, lengths, -1)


def _shortest_first(lines: list[ListLine], lengths: _Lengths) -> list[ListLine]:
    """Shortest responses first."""
    return _by_length(lines, lengths, 1)


GROUPS = "groups"
ORDERS: dict[str, Callable[[list[ListLine], _Lengths], list[ListLine]]] = {
    GROUPS: _as_they_are,
    "worst first": _worst_first,
    "best first": _best_first,
    "longest first": _longest_first,
    "shortest first": _shortest_first,
}


def next_order(order: str) -> str:
    """Return the next order."""
    names = list(ORDERS)
    return names[(names.index(order) + 1) % len(names)]


def first_of_group(lines: Sequence[ListLine], cursor: int, direction: int) -> int:
    """Return the line of the first record of the next (1) or previous (-1) group, else the cursor."""
    firsts = [number + 1 for number, line in enumerate(lines) if isinstance(line, GroupLine)]
    if direction > 0:
        return next((first for first in firsts if first > cursor), cursor)
    return next((first for first in reversed(firsts) if first < cursor), cursor)


def line_of(lines: Sequence[ListLine], index: int | None) -> int | None:
    """Return the line of a record, None if it is not in the list."""
    return next((n for n, line in enumerate(lines) if isinstance(line, RecordLine) and line.index == index), None)


def bounds_of(lines: Sequence[ListLine]) -> tuple[float, float]:
    """Return the lowest and the highest score of a list."""
    scores = [line.score for line in lines if isinstance(line, RecordLine) and line.score is not None]
    return (min(scores), max(scores)) if scores else (0.0, 0.0)
