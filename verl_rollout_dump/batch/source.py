"""Rollouts that lie elsewhere: described here, read where they are to be written.

A trainer whose batch is too large for its own process hands over a `RolloutSource` in place of a `RolloutBatch`
(`RolloutDumpCallback.on_rollouts_at`). Under `writer.mode=ray` each writing actor reads its own part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Protocol

from verl_rollout_dump.batch.rollout_batch import RolloutBatch
from verl_rollout_dump.config import DumpConfig


class RolloutSource(Protocol):
    """The rollouts of one step, not read yet. It can be pickled."""

    step: int

    def split(self, parts: int) -> Sequence[RolloutSource]:
        """Return the same rollouts in so many parts, in their order; a part may be empty."""

    def read(self, config: DumpConfig) -> RolloutBatch:
        """Return the rollouts."""


def bounds(n: int, parts: int) -> list[tuple[int, int]]:
    """Return where each of so many parts of n rows begins and ends: sizes differ by one at most."""
    return [(n * part // parts, n * (part + 1) // parts) for part in range(parts)]


WHOLE = ("step", "split")
COLUMNS_BY_NAME = ("extras", "trainer_fields")


def split_batch(batch: RolloutBatch, parts: int) -> list[RolloutBatch]:
    """Return the rollouts of a batch in so many parts, in their order; a part may be empty."""
    return [part_of(batch, first, last) for first, last in bounds(len(batch), parts)]


def part_of(batch: RolloutBatch, first: int, last: int) -> RolloutBatch:
    """Return some rows of a batch."""
    n = len(batch)
    given = {field.name: getattr(batch, field.name) for field in fields(batch) if field.name not in WHOLE}
    cut = {name: rows_of(values, first, last) for name, values in given.items() if name not in COLUMNS_BY_NAME}
    for name in COLUMNS_BY_NAME:
        columns = given[name]
        if isinstance(columns, Mapping):
            cut[name] = {key: part_of_column(values, n, first, last) for key, values in columns.items()}
        else:  # one mapping per rollout
            cut[name] = columns[first:last]
    return replace(batch, **cut)


def part_of_column(values: Any, n: int, first: int, last: int) -> Any:
    """Return the rows of a column; what is no column, and repeated on each record, as it is.

    A column of another length than the batch is handed on without a row, so that it fits no part either.
    """
    is_column = isinstance(values, (list, tuple)) or getattr(values, "ndim", 0) > 0
    if not is_column:
        return values
    return rows_of(values, first, last) if len(values) == n else values[:0]


def rows_of(values: Any, first: int, last: int) -> Any:
    """Return rows of a column or a matrix, copied: a view would travel with the whole of what it shows."""
    if values is None:
        return None
    if getattr(values, "is_nested", False):
        return [row.tolist() for row in values.unbind()[first:last]]
    rows = values[first:last]
    copy = getattr(rows, "clone", None) or getattr(rows, "copy", None)
    return copy() if copy is not None and hasattr(rows, "ndim") else rows
