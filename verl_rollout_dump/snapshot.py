"""`StepSnapshot`: what is handed over from the training thread. Nothing in it can still change.

A trainer goes on to change its lists and dicts, so columns are copied when the snapshot is taken; what cannot be
copied safely is converted at once. Token ids are the exception: they are by far the largest part, trainers do not
write into them, and a copy would cost more than everything else; they stay references to host memory.

`converted` makes of it what is written. It may be called again, should writing fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from verl_rollout_dump.config.schema import DumpConfig, Strategy
from verl_rollout_dump.fields import TOKENS, BatchValue, Field
from verl_rollout_dump.host_copies import HostCopies
from verl_rollout_dump.rollouts import RolloutBatch
from verl_rollout_dump.serialization import ConversionReport, JsonValue, Serializer
from verl_rollout_dump.token_rows import TokenRows, are_token_ids, token_rows

SCORE = "score"
# Fields that hold token ids (or go with them), and the mask that tells which tokens are real.
MASKS = {
    "input": "prompt_mask",
    "output": "response_mask",
    "prompt_ids": "prompt_mask",
    "response_ids": "response_mask",
    "rollout_log_probs": "response_mask",
}


@dataclass
class TextField:
    """Token ids that become text: (n, length) ids, of which each row has a part."""

    name: str
    tokens: TokenRows


@dataclass
class TokensField:
    """Token ids or log-probabilities that are written as arrays of numbers."""

    name: str
    tokens: TokenRows


@dataclass
class ValuesField:
    """n JSON-ready values."""

    name: str
    values: Sequence[JsonValue]


class LateColumn(Protocol):
    """n values that nobody else can change, and that are converted later."""

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory they keep."""

    def convert(self, report: ConversionReport) -> list[JsonValue]:
        """Return the values as JSON-ready; may be called again."""


@dataclass
class CopiedColumn:
    """A column that is a tensor on its way from another device."""

    serializer: Serializer
    name: str
    tensor: Any

    @property
    def nbytes(self) -> int:
        """How many bytes of memory the copy takes."""
        return int(self.tensor.nbytes)

    def convert(self, report: ConversionReport) -> list[JsonValue]:
        """Return the values as JSON-ready."""
        return self.serializer.convert_column(self.name, self.tensor, report)


@dataclass
class TakenField:
    """n values that are copied, and converted later."""

    name: str
    column: LateColumn


SnapshotField = TextField | TokensField | ValuesField | TakenField
# What is left when everything is converted.
WrittenField = TextField | TokensField | ValuesField


@dataclass
class StepSnapshot:
    """The rollouts of one step that are to be written, in the order of the records."""

    step: int
    split: str
    rows: int
    fields: list[SnapshotField]
    report: ConversionReport
    copies: HostCopies = field(default_factory=HostCopies)


def take_snapshot(
    batch: RolloutBatch, fields: list[Field], rows: list[int], serializer: Serializer, config: DumpConfig
) -> StepSnapshot:
    """Copy or convert the columns of the chosen rows, and keep references to their token ids.

    Raises `ConversionError` where a value has no JSON form and the config says that this is an error, and
    `BatchError` for token ids that cannot be read.
    """
    snapshot = StepSnapshot(batch.step, batch.split, len(rows), [], ConversionReport())
    chosen = None if len(rows) == len(batch) else rows
    for wanted in fields:
        snapshot.fields.append(snapshot_field(wanted, batch, chosen, serializer, config, snapshot))
    snapshot.copies.seal()
    return snapshot


@dataclass
class ConvertedStep:
    """The same with all columns converted, and what that came to."""

    step: int
    rows: int
    fields: list[WrittenField]
    report: ConversionReport


def converted(snapshot: StepSnapshot) -> ConvertedStep:
    """Convert what is not converted yet, counted in a report of its own."""
    snapshot.copies.wait()
    report = ConversionReport()
    fields = [
        ValuesField(field.name, field.column.convert(report)) if isinstance(field, TakenField) else field
        for field in snapshot.fields
    ]
    return ConvertedStep(snapshot.step, snapshot.rows, fields, report)


def snapshot_field(
    field: Field,
    batch: RolloutBatch,
    rows: list[int] | None,
    serializer: Serializer,
    config: DumpConfig,
    snapshot: StepSnapshot,
) -> SnapshotField:
    """Take one field of a snapshot: as text or numbers to come, or as values."""
    n = len(batch) if rows is None else len(rows)
    if isinstance(field, BatchValue):
        return ValuesField(field.name, [serializer.convert_value(field.name, field.values, snapshot.report)] * n)
    if field.name in MASKS and (field.name in TOKENS or are_token_ids(field.values)):
        mask = getattr(batch, MASKS[field.name])
        tokens = token_rows(field.name, field.values, mask, snapshot.copies.array).take(rows)
        return (TokensField if field.name in TOKENS else TextField)(field.name, tokens)
    chosen = take(field.values, rows)
    by = serializer if field.name != SCORE else numeric(serializer, config)
    copy = snapshot.copies.begin(chosen)
    if copy is not chosen:
        return TakenField(field.name, CopiedColumn(by, field.name, copy))
    column = by.take_column(field.name, chosen)
    if column is not None:
        return TakenField(field.name, column)
    return ValuesField(field.name, by.convert_column(field.name, chosen, snapshot.report))


def numeric(serializer: Serializer, config: DumpConfig) -> Serializer:
    """Return the serializer of scores: they are numbers under every strategy, as in verl's own dump."""
    if config.serialization.strategy is Strategy.early_convert:
        return serializer
    return Serializer(replace(config.serialization, strategy=Strategy.early_convert))


def take(values: Any, rows: list[int] | None) -> Any:
    """Return the chosen rows of a column, as the kind of column it is; None: all."""
    if rows is None:
        return values
    if getattr(values, "is_nested", False):
        values = values.unbind()  # jagged tensors take no list of rows
    if hasattr(values, "iloc"):
        return values.iloc[rows]  # a Series takes labels in its brackets
    return values[rows] if hasattr(values, "ndim") else [values[row] for row in rows]
