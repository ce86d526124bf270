"""The content of the viewer without textual: steps, the lines of a step, records.

A training may change the dump meanwhile: `refresh` looks for it, and what is shown changes with `take`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import lru_cache
from types import TracebackType
from typing import NamedTuple

import numpy as np

from verl_rollout_dump.analysis.diff import mean_score
from verl_rollout_dump.analysis.groups import groups_of_step
from verl_rollout_dump.analysis.where import Condition
from verl_rollout_dump.reader import Dump, DumpReadError, Record
from verl_rollout_dump.viewer.lines import GROUPS, ORDERS, GroupLine, ListLine, RecordLine

_RECORDS_KEPT = 512  # parsed records in memory
READ_ERRORS = (DumpReadError, OSError, ValueError)  # a file changed or was removed while it was read


class Changes(NamedTuple):
    """What a look at the folder found: all steps, those that are new or changed, and those that are gone."""

    steps: list[int]
    news: list[int]
    gone: list[int]


class ViewerSource:
    """An open dump, as the viewer reads it. Threads may read while another one refreshes."""

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self.path = dump.path
        self.steps = self.dump.steps
        self._means: dict[int, float | None] = {}
        self._lock = threading.RLock()  # the index must not change while the lines of a step are made
        self._kept_record = lru_cache(maxsize=_RECORDS_KEPT)(dump.raw_record)

    def __enter__(self) -> ViewerSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.dump.close()

    def refresh(self) -> Changes:
        """Find new, changed and removed files. Raises `DumpReadError`, OSError; then the former files count."""
        with self._lock:
            before = {file: self.dump.has_index(file) for file in self.dump.files}
            self.dump.refresh()
            files = self.dump.files
            changed = {file.step for file in files if not before.get(file) or not self.dump.has_index(file)}
            changed |= {file.step for file in before.keys() - files}
            steps = self.dump.steps
        known = set(self.steps)
        news = [step for step in steps if step not in known or (step in changed and step in self._means)]
        return Changes(steps, news, sorted(known - set(steps)))

    def take(self, changes: Changes) -> None:
        """Show what `refresh` found."""
        self.steps = changes.steps
        for step in (*changes.news, *changes.gone):
            self._means.pop(step, None)
        self._kept_record.cache_clear()

    def mean(self, step: int) -> float | None:
        """Return the mean score of a step if it is known already."""
        return self._means.get(step)

    def unknown_steps(self) -> list[int]:
        """Return the steps whose mean score is not known yet, the last ones first."""
        return [step for step in reversed(self.steps) if step not in self._means]

    def learn(self, step: int) -> None:
        """Compute the mean score of a step, None if it cannot be read; reads its files if there is no index."""
        try:
            with self._lock:
                self._means[step] = mean_score(self.dump, step)
        except READ_ERRORS:  # the list of its records says so
            self._means[step] = None

    def lines(self, step: int, order: str, holds: Condition | None) -> list[ListLine]:
        """Return the list of a step in an order of `ORDERS`; `holds` filters the records."""
        with self._lock:
            groups = groups_of_step(self.dump, step)
        kept = None if holds is None else {row.index for row in self.dump.rows([step]) if holds(row.record)}
        lines: list[ListLine] = []
        for number, group in enumerate(groups, start=1):
            records = [
                RecordLine(index, score, number)
                for index, score in zip(group.indexes, group.scores, strict=True)
                if kept is None or index in kept
            ]
            if records and order == GROUPS:
                lines.append(GroupLine(number, group))
            lines += records
        return ORDERS[order](lines, lambda: self._lengths(step))

    def _lengths(self, step: int) -> list[int]:
        """Return the lengths of the responses of a step, in characters."""
        return [len(self.dump.fields.text(row.record, "response")) for row in self.dump.rows([step])]

    def record(self, step: int, index: int) -> Record:
        """Return a record; if its file changed or was removed, one that says so."""
        try:
            return self._kept_record(step, index)
        except READ_ERRORS as error:
            return {"output": f"(cannot be read: {error})"}

    def find(self, step: int, needle: str, holds: Condition | None) -> Iterator[int]:
        """Yield the indexes of the records of a step whose prompt or response contains a text, ignoring case."""
        folded = needle.casefold()
        fields = self.dump.fields
        for row in self.dump.rows([step]):
            is_hit = any(folded in fields.text(row.record, role).casefold() for role in ("response", "prompt"))
            if is_hit and (holds is None or holds(row.record)):
                yield row.index


def finite_means(source: ViewerSource) -> list[float]:
    """Return the known mean scores in the order of steps."""
    means = (source.mean(step) for step in source.steps)
    return [mean for mean in means if mean is not None and np.isfinite(mean)]
