"""Select the steps and records that a user asks for."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from verl_rollout_dump.analysis.known_fields import require_fields
from verl_rollout_dump.analysis.where import Condition, parse_where
from verl_rollout_dump.reader import Dump, DumpReadError, Record, Row
from verl_rollout_dump.storage.steps import format_steps, parse_steps

_LAST = "last"
_Ranked = tuple[float, int, int]  # sort key, step, index


def select_steps(dump: Dump, text: str | None) -> list[int]:
    """Return the steps that a text such as "7", "1-3,9" or "last" names; all steps for None.

    Raises `DumpReadError` if the text is not of this form or names no step of the dump.
    """
    steps = dump.steps
    if text is None or not steps:
        return steps
    if text.strip() == _LAST:
        return steps[-1:]
    try:
        wanted = parse_steps(text.replace(" ", ""))
    except ValueError as error:
        raise DumpReadError(f'--step {text}: expected steps such as "7", "1-3,9" or "last"') from error
    found = [step for step in steps if step in wanted]
    if not found:
        raise DumpReadError(f"{dump.path} has no step {text}. It has: {format_steps(steps)}")
    return found


def condition_of(dump: Dump, where: str | None) -> Condition:
    """Return the condition of `--where`; for None one that is always true.

    Raises `WhereError` if the text is not an expression, or names a field that no record of the dump has.
    """
    if where is None:
        return Condition("", lambda record: True)
    condition = parse_where(where)
    require_fields(dump, condition)
    return condition


def with_step(row: Row) -> Record:
    """Return the record of a row with its `step`, which may stand only in the name of its file."""
    return row.record if "step" in row.record else {**row.record, "step": row.step}


@dataclass(frozen=True)
class Selection:
    """The records that a user asks for. None: no restriction of this kind."""

    steps: list[int]
    index: int | None = None
    uid: str | None = None
    worst: int | None = None
    best: int | None = None
    random: int | None = None
    where: str | None = None

    def rows(self, dump: Dump) -> Iterator[Row]:
        """Yield the records in the order asked for. Raises `DumpReadError`, `WhereError`."""
        if self.index is not None:
            return (self._row(dump, step, self.index) for step in self.steps)
        if self.worst is not None:
            return self._by_score(dump, self.worst, 1.0)
        if self.best is not None:
            return self._by_score(dump, self.best, -1.0)
        if self.random is not None:
            return iter(self._sample(dump, self.random))
        return self._matching(dump)

    def _matching(self, dump: Dump) -> Iterator[Row]:
        holds = condition_of(dump, self.where)
        for row in dump.rows(self.steps):
            if self._has_uid(dump, row) and holds(with_step(row)):
                yield row

    def _has_uid(self, dump: Dump, row: Row) -> bool:
        if self.uid is None:
            return True
        found = dump.fields.value(row.record, "uid")
        return found is not None and str(found).startswith(self.uid)

    def _row(self, dump: Dump, step: int, index: int) -> Row:
        return Row(step, index, dump.place(step, index).path, 0, dump.raw_record(step, index))

    def _by_score(self, dump: Dump, count: int, sign: float) -> Iterator[Row]:
        is_filtered = self.where is not None or self.uid is not None
        places = self._matching_places(dump, sign) if is_filtered else self._first_places(dump, count, sign)
        for _, step, index in heapq.nsmallest(count, places):
            yield self._row(dump, step, index)

    def _first_places(self, dump: Dump, count: int, sign: float) -> Iterator[_Ranked]:
        """Yield the first `count` records by score, from the index."""
        columns = dump.columns("score", "step", "index")
        keys, steps, indexes = sign * columns["score"], columns["step"], columns["index"]
        wanted = np.flatnonzero(np.isfinite(keys) & np.isin(steps, self.steps))
        first = wanted[np.lexsort((indexes[wanted], steps[wanted], keys[wanted]))[:count]]
        return zip(keys[first].tolist(), steps[first].tolist(), indexes[first].tolist(), strict=True)

    def _matching_places(self, dump: Dump, sign: float) -> Iterator[_Ranked]:
        """Yield the records that pass the filters and have a finite score."""
        for row in self._matching(dump):
            score = dump.fields.score_of(row.record)
            if score is not None and math.isfinite(score):
                yield sign * score, row.step, row.index

    def _sample(self, dump: Dump, count: int) -> list[Row]:
        kept: list[Row] = []
        for seen, row in enumerate(self._matching(dump)):
            if len(kept) < count:
                kept.append(row)
            elif (place := random.randint(0, seen)) < count:
                kept[place] = row
        return sorted(kept, key=lambda row: (row.step, row.index))
