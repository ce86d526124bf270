"""`StepSnapshot`: what the training thread hands over. Nothing in it can still change.

A trainer continues to change its lists and dicts, so columns are copied when the snapshot is taken; a column that
cannot be copied safely is converted at once. Token ids are the exception: they are by far the largest part, trainers
do not write into them, and a copy would cost more than everything else; they stay references to host memory.

A column that cannot be read costs itself, never the step: it is null on every record, and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from verl_rollout_dump.batch.columns import take_rows
from verl_rollout_dump.batch.deferred import DeferredRows
from verl_rollout_dump.batch.host_copies import HostCopies
from verl_rollout_dump.batch.rollout_batch import RolloutBatch, step_number
from verl_rollout_dump.dump.fields import BatchValue, Column, Field, ScoreColumn, TextColumn, TokenColumn
from verl_rollout_dump.dump.snapshot_fields import (
    CopiedField,
    PendingTokenField,
    RepeatedField,
    SnapshotField,
    TextField,
    TokenArrayField,
    ValuesField,
    WrittenField,
    nbytes_of,
)
from verl_rollout_dump.dump.token_rows import NotNumbersError, token_rows
from verl_rollout_dump.serialization import ConversionError, ConversionReport, Serializer


@dataclass
class StepSnapshot:
    """The rollouts of one step, in the order of the records."""

    step: int
    n: int
    # The numbers of the rows that are written, in rising order.
    kept: Sequence[int]
    # The number of the first record within the step, where several writers share a step.
    first_record: int = 0
    fields: list[SnapshotField] = field(default_factory=list)
    copies: HostCopies = field(default_factory=HostCopies)
    report: ConversionReport = field(default_factory=ConversionReport)
    # Columns that could not be read, by name: why.
    unreadable: dict[str, Exception] = field(default_factory=dict)

    @property
    def rows(self) -> Sequence[int] | None:
        """The numbers of the rows that are written; None if all are."""
        return None if len(self.kept) == self.n else self.kept

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory the snapshot keeps while it waits to be written."""
        return nbytes_of(self.fields)


@dataclass
class ConvertedStep:
    """A step with all columns converted, and the report of that conversion."""

    step: int
    rows: int
    fields: list[WrittenField]
    report: ConversionReport = field(default_factory=ConversionReport)
    # Columns that could not be read, by name: why.
    unreadable: dict[str, Exception] = field(default_factory=dict)


def convert_snapshot(snapshot: StepSnapshot) -> ConvertedStep:
    """Convert what is not converted yet. Raises `ConversionError` if the config asks for it."""
    snapshot.copies.wait()
    step = ConvertedStep(snapshot.step, len(snapshot.kept), [], unreadable=dict(snapshot.unreadable))
    for one in snapshot.fields:
        try:
            step.fields.append(one.resolve(snapshot, step.report))
        except ConversionError:
            raise
        except Exception as error:
            step.unreadable[one.name] = error
            step.fields.append(ValuesField(one.name, [None] * step.rows))
    return step


def take_snapshot(
    batch: RolloutBatch,
    kept: Sequence[int],
    fields: list[Field],
    serializer: Serializer,
    first_record: int = 0,
) -> StepSnapshot:
    """Copy or convert the columns, and keep references to the token ids.

    `kept` are the numbers of the rows that are written, `first_record` is the number of the first of them within the
    step. Raises `ConversionError` if a value has no JSON form and the
    config says that this is an error.
    """
    snapshot = StepSnapshot(step_number(batch.step), len(batch), kept, first_record)
    for wanted in fields:
        by = serializer.numeric if isinstance(wanted, ScoreColumn) else serializer
        try:
            snapshot.fields.append(_snapshot_field(wanted, by, snapshot))
        except ConversionError:
            raise
        except Exception as error:
            snapshot.unreadable[wanted.name] = error
            snapshot.fields.append(RepeatedField(wanted.name, None))
    snapshot.copies.seal()
    return snapshot


def needs_tokenizer(snapshot: StepSnapshot) -> bool:
    """Return whether token ids of a snapshot become text."""
    return any(
        one.has_tokens
        for one in snapshot.fields
        if isinstance(one, TextField) or (isinstance(one, PendingTokenField) and one.kind is TextField)
    )


def _snapshot_field(field: Field, serializer: Serializer, snapshot: StepSnapshot) -> SnapshotField:
    """Take one field of a snapshot: as tokens, as a copy, or converted."""
    if isinstance(field, BatchValue):
        # Counted once for the step: by the writer of its first record.
        report = snapshot.report if snapshot.first_record == 0 else ConversionReport()
        return RepeatedField(field.name, serializer.convert_value(field.name, field.values, report))
    if isinstance(field, TokenColumn):
        try:
            return _token_field(field, snapshot)
        except NotNumbersError:  # converted value by value, each is written as what it is
            return _column_field(Column(field.name, field.values), serializer, snapshot)
    return _column_field(field, serializer, snapshot)


def _token_field(field: TokenColumn, snapshot: StepSnapshot) -> SnapshotField:
    kind = TextField if isinstance(field, TextColumn) else TokenArrayField
    if isinstance(field.mask, DeferredRows):
        return PendingTokenField(field.name, snapshot.copies.begin(field.values), field.mask, kind)
    return kind(field.name, token_rows(field.name, field.values, field.mask, snapshot.copies.array))


def _column_field(field: Field, serializer: Serializer, snapshot: StepSnapshot) -> SnapshotField:
    if isinstance(field.values, DeferredRows):
        return CopiedField(field.name, field.values, serializer)
    given = _flat_scores(field.values) if isinstance(field, ScoreColumn) else field.values
    values = snapshot.copies.begin(given)
    copy = values if values is not given else serializer.copy_column(values)
    if copy is not None:
        return CopiedField(field.name, copy, serializer)
    chosen = take_rows(given, snapshot.rows)
    return ValuesField(field.name, serializer.convert_column(field.name, chosen, snapshot.report))


def _flat_scores(scores: Any) -> Any:
    """Return scores of shape (n, 1) as n numbers; others as they are."""
    if getattr(scores, "ndim", 1) == 2 and scores.shape[1] == 1:
        return (scores if hasattr(scores, "detach") else np.asarray(scores)).reshape(-1)
    if isinstance(scores, list) and all(isinstance(score, (list, tuple)) and len(score) == 1 for score in scores):
        return [score[0] for score in scores]
    return scores
