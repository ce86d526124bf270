"""The content of the viewer without textual: steps, the lines of a step, records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType

import numpy as np

from verl_rollout_dump.analysis.diff import mean_score
from verl_rollout_dump.analysis.groups import Group, groups_of_step
from verl_rollout_dump.analysis.where import Condition
from verl_rollout_dump.reader import Dump, DumpReadError, Record

_RECORDS_KEPT = 512  # parsed records in memory


@dataclass(frozen=True)
class RecordLine:
    """A record in the list: its index in the step, its score, the number of its group from 1, its size in bytes."""

    index: int
    score: float | None
    group: int
    size: int


@dataclass(frozen=True)
class GroupLine:
    """The heading of a group in the list; `number` counts the groups of the step from 1."""

    number: int
    group: Group


ListLine = RecordLine | GroupLine


class ViewerSource:
    """An open dump, as the viewer reads it."""

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self.path = dump.path
        self.steps = self.dump.steps
        self._means: dict[int, float | None] = {}
        self.record = lru_cache(maxsize=_RECORDS_KEPT)(self._record)

    def __enter__(self) -> ViewerSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.dump.close()

    def refresh(self) -> list[int]:
        """Find new and changed files; return their steps."""
        before = {file: self.dump.has_index(file) for file in self.dump.files}
        self.dump.refresh()
        changed = {file.step for file in self.dump.files if not before.get(file) or not self.dump.has_index(file)}
        known = set(self.steps)
        self.steps = self.dump.steps
        news = [step for step in self.steps if step not in known or (step in changed and step in self._means)]
        for step in news:
            self._means.pop(step, None)
        if news:
            self.record.cache_clear()
        return news

    def mean(self, step: int) -> float | None:
        """Return the mean score of a step if it is known already."""
        return self._means.get(step)

    def unknown_steps(self) -> list[int]:
        """Return the steps whose mean score is not known yet, the last ones first."""
        return [step for step in reversed(self.steps) if step not in self._means]

    def learn(self, step: int) -> None:
        """Compute the mean score of a step; reads its files if there is no index."""
        self._means[step] = mean_score(self.dump, step)

    def lines(self, step: int, order: str, holds: Condition | None) -> list[ListLine]:
        """Return the list of a step in an order of `_ORDERS`; `holds` filters the records."""
        groups = groups_of_step(self.dump, step)
        sizes = self.dump.column(step, "length")
        kept = None if holds is None else self._kept(step, holds)
        lines: list[ListLine] = []
        for number, group in enumerate(groups, start=1):
            records = [
                RecordLine(index, score, number, int(sizes[index]))
                for index, score in zip(group.indexes, group.scores, strict=True)
                if kept is None or index in kept
            ]
            if records and order == GROUPS:
                lines.append(GroupLine(number, group))
            lines += records
        return _ORDERS[order](lines)

    def _kept(self, step: int, holds: Condition) -> set[int]:
        return {row.index for row in self.dump.rows([step]) if holds(row.record)}

    def _record(self, step: int, index: int) -> Record:
        try:
            return self.dump.raw_record(step, index)
        except (DumpReadError, OSError, ValueError) as error:  # the file changed under the viewer: say so in its place
            return {"input": "", "output": f"(cannot be read: {error})"}

    def find(self, step: int, indexes: list[int], needle: str) -> Iterator[int]:
        """Yield the records whose prompt or response contains a text, ignoring case."""
        folded = needle.casefold()
        for index in indexes:
            record = self.record(step, index)
            if any(folded in self.dump.fields.text(record, role).casefold() for role in ("response", "prompt")):
                yield index


def _as_they_are(lines: list[ListLine]) -> list[ListLine]:
    """Groups in the order of the file."""
    return lines


def _score_order(line: ListLine, sign: float) -> tuple[bool, float]:
    """Return the sort key of a record by score; records without a score come last."""
    score = line.score if isinstance(line, RecordLine) else None
    return score is None, sign * (score or 0.0)


def _worst_first(lines: list[ListLine]) -> list[ListLine]:
    """Lowest scores first."""
    return sorted(lines, key=lambda line: _score_order(line, 1.0))


def _best_first(lines: list[ListLine]) -> list[ListLine]:
    """Highest scores first."""
    return sorted(lines, key=lambda line: _score_order(line, -1.0))


def _longest_first(lines: list[ListLine]) -> list[ListLine]:
    """Largest records first."""
    return sorted(lines, key=lambda line: -line.size if isinstance(line, RecordLine) else 0)


GROUPS = "groups"
_ORDERS = {
    GROUPS: _as_they_are,
    "worst first": _worst_first,
    "best first": _best_first,
    "longest first": _longest_first,
}


def next_order(order: str) -> str:
    """Return the next order."""
    names = list(_ORDERS)
    return names[(names.index(order) + 1) % len(names)]


def finite_means(source: ViewerSource) -> list[float]:
    """Return the known mean scores in the order of steps."""
    means = (source.mean(step) for step in source.steps)
    return [mean for mean in means if mean is not None and np.isfinite(mean)]


def first_of_group(lines: Sequence[ListLine], cursor: int, direction: int) -> int:
    """Return the line of the first record of the next (1) or previous (-1) group, else the cursor."""
    firsts = [number + 1 for number, line in enumerate(lines) if isinstance(line, GroupLine)]
    if direction > 0:
        return next((first for first in firsts if first > cursor), cursor)
    return next((first for first in reversed(firsts) if first < cursor), cursor)


def records_from(lines: Sequence[ListLine], cursor: int, direction: int) -> dict[int, int]:
    """Return index -> line of all records, in the order of a search from the cursor.

    The search goes forwards (1), backwards (-1), or forwards from the record under the cursor (0). It wraps around.
    """
    count = len(lines)
    step = -1 if direction < 0 else 1
    start = cursor + (step if direction else 0)
    around = [(start + step * distance) % count for distance in range(count)]
    return {line.index: number for number in around if isinstance(line := lines[number], RecordLine)}
