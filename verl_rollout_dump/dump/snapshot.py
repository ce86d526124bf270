"""`StepSnapshot`: what is handed over from the training thread. Nothing in it can still change.

A trainer goes on to change its lists and dicts, so columns are copied when the snapshot is taken; what cannot be
copied safely is converted at once. Token ids are the exception: they are by far the largest part, trainers do not
write into them, and a copy would cost more than everything else; they stay references to host memory.

`converted` makes of it what is written. It may be called again, should writing fail.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from verl_rollout_dump.batch.deferred import Late, LateRows, present
from verl_rollout_dump.batch.host_copies import HostCopies
from verl_rollout_dump.batch.rollout_batch import RolloutBatch
from verl_rollout_dump.config.schema import DumpConfig, Strategy
from verl_rollout_dump.dump.fields import TOKENS, BatchValue, Field
from verl_rollout_dump.dump.sampling import KeptRows, all_real_rows, kept_rows
from verl_rollout_dump.dump.token_rows import TokenRows, are_token_ids, token_rows
from verl_rollout_dump.serialization import ConversionReport, JsonValue, Serializer

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
class FieldOfTokens:
    """(n, length) numbers, one for a token, of which each row has a part."""

    name: str
    tokens: TokenRows

    def written(self, snapshot: StepSnapshot, report: ConversionReport) -> FieldOfTokens:
        """Return the rows that are written."""
        return replace(self, tokens=self.tokens.take(snapshot.rows))

    @property
    def parts(self) -> list[Any]:
        """What it keeps in memory."""
        found = self.tokens.numbers, self.tokens.mask, self.tokens.offsets
        return [part for part in found if part is not None]


class TextField(FieldOfTokens):
    """Token ids that become text."""


class TokensField(FieldOfTokens):
    """Token ids or log-probabilities that are written as arrays of numbers."""


@dataclass(slots=True)
class UnreadTokens:
    """Token ids or log-probabilities (n, length), whose mask is worked out later."""

    name: str
    numbers: Any
    mask: LateRows

    def written(self, snapshot: StepSnapshot, report: ConversionReport) -> FieldOfTokens:
        """Return the rows that are written. Raises `BatchError` where the mask does not fit."""
        tokens = token_rows(self.name, self.numbers, self.mask.value, snapshot.copies.array)
        return tokens_field(self.name, tokens).written(snapshot, report)

    @property
    def parts(self) -> list[Any]:
        """What it keeps in memory."""
        return [self.numbers, self.mask]


@dataclass(slots=True)
class ValuesField:
    """One JSON-ready value for each row that is written."""

    name: str
    values: Sequence[JsonValue]

    def written(self, snapshot: StepSnapshot, report: ConversionReport) -> ValuesField:
        """Return itself."""
        return self

    @property
    def parts(self) -> list[Any]:
        """What it keeps in memory."""
        return [self.values]


@dataclass(slots=True)
class RepeatedField:
    """One JSON-ready value for all rows."""

    name: str
    value: JsonValue

    def written(self, snapshot: StepSnapshot, report: ConversionReport) -> ValuesField:
        """Return it once for each."""
        return ValuesField(self.name, [self.value] * len(snapshot.kept.value.rows))

    @property
    def parts(self) -> list[Any]:
        """What it keeps in memory: next to nothing."""
        return []


@dataclass(slots=True)
class CopiedField:
    """n values that nobody else can change, converted later."""

    name: str
    values: Any
    serializer: Serializer

    def written(self, snapshot: StepSnapshot, report: ConversionReport) -> ValuesField:
        """Convert the rows that are written. Raises `ConversionError` where the config wants one."""
        chosen = take(present(self.values), snapshot.rows)
        return ValuesField(self.name, self.serializer.convert_column(self.name, chosen, report))

    @property
    def parts(self) -> list[Any]:
        """What it keeps in memory."""
        return [self.values]


SnapshotField = FieldOfTokens | UnreadTokens | ValuesField | RepeatedField | CopiedField
# What is left when everything is converted.
WrittenField = FieldOfTokens | ValuesField


@dataclass
class StepSnapshot:
    """The rollouts of one step, in the order of the records."""

    step: int
    n: int
    # Which of them are written.
    kept: Late[KeptRows]
    fields: list[SnapshotField]
    copies: HostCopies = field(default_factory=HostCopies)
    report: ConversionReport = field(default_factory=ConversionReport)

    @property
    def rows(self) -> Sequence[int] | None:
        """The rows that are written; None: all."""
        rows = self.kept.value.rows
        return None if len(rows) == self.n else rows


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
    fields = [field.written(snapshot, report) for field in snapshot.fields]
    return ConvertedStep(snapshot.step, len(snapshot.kept.value.rows), fields, report)


def take_snapshot(batch: RolloutBatch, fields: list[Field], serializer: Serializer, config: DumpConfig) -> StepSnapshot:
    """Copy or convert the columns, and keep references to the token ids.

    Raises `ConversionError` where a value has no JSON form and the config says that this is an error, and
    `BatchError` for token ids that cannot be read.
    """
    copies = HostCopies()
    snapshot = StepSnapshot(batch.step, len(batch), rows_to_keep(batch, config, copies), [], copies)
    for wanted in fields:
        snapshot.fields.append(snapshot_field(wanted, batch, serializer, config, snapshot))
    snapshot.copies.seal()
    return snapshot


def rows_to_keep(batch: RolloutBatch, config: DumpConfig, copies: HostCopies) -> Late[KeptRows]:
    """Choose the rows that are written: later, where the mask comes later and nothing else is looked at."""
    if config.sampling.max_records is None:
        mask = copies.begin(batch.response_mask)
        if isinstance(mask, LateRows) or mask is not batch.response_mask:
            return Late(real_rows_on_host, copies, mask, len(batch))
    kept = kept_rows(batch, config.sampling)
    return Late(lambda: kept)


def real_rows_on_host(copies: HostCopies, response_mask: Any, n: int) -> KeptRows:
    """Choose every row that is no padding, as soon as the copies are there."""
    copies.seal()
    copies.wait()
    return all_real_rows(response_mask, n)


def snapshot_field(
    field: Field, batch: RolloutBatch, serializer: Serializer, config: DumpConfig, snapshot: StepSnapshot
) -> SnapshotField:
    """Take one field of a snapshot: as tokens, as a copy, or converted."""
    if isinstance(field, BatchValue):
        return RepeatedField(field.name, serializer.convert_value(field.name, field.values, snapshot.report))
    if field.name in MASKS and (field.name in TOKENS or are_token_ids(field.values)):
        mask = getattr(batch, MASKS[field.name])
        if isinstance(mask, LateRows):
            return UnreadTokens(field.name, snapshot.copies.begin(field.values), mask)
        return tokens_field(field.name, token_rows(field.name, field.values, mask, snapshot.copies.array))
    by = serializer if field.name != SCORE else numeric(serializer, config)
    if isinstance(field.values, LateRows):
        return CopiedField(field.name, field.values, by)
    values = snapshot.copies.begin(field.values)
    copy = values if values is not field.values else by.copy_column(values)
    if copy is not None:
        return CopiedField(field.name, copy, by)
    chosen = take(field.values, snapshot.rows)
    return ValuesField(field.name, by.convert_column(field.name, chosen, snapshot.report))


def needs_tokenizer(snapshot: StepSnapshot) -> bool:
    """Whether token ids of a snapshot become text."""
    of_tokens = (field for field in snapshot.fields if isinstance(field, FieldOfTokens | UnreadTokens))
    return any(field.name not in TOKENS for field in of_tokens)


def tokens_field(name: str, tokens: TokenRows) -> FieldOfTokens:
    """Return the field that a name stands for: text, or numbers."""
    return (TokensField if name in TOKENS else TextField)(name, tokens)


def numeric(serializer: Serializer, config: DumpConfig) -> Serializer:
    """Return the serializer of scores: they are numbers under every strategy, as in verl's own dump."""
    if config.serialization.strategy is Strategy.early_convert:
        return serializer
    return Serializer(replace(config.serialization, strategy=Strategy.early_convert))


def take(values: Any, rows: Sequence[int] | None) -> Any:
    """Return the chosen rows of a column, as the kind of column it is; None: all."""
    if rows is None:
        return values
    if getattr(values, "is_nested", False):
        values = values.unbind()  # jagged tensors take no list of rows
    if hasattr(values, "iloc"):
        return values.iloc[rows]  # a Series takes labels in its brackets
    return values[rows] if hasattr(values, "ndim") else [values[row] for row in rows]


LOOKED_AT = 8  # values of a column
POINTER = 8


def bytes_of(snapshot: StepSnapshot) -> int:
    """Return about how many bytes of memory a snapshot keeps."""
    parts = [part for field in snapshot.fields for part in field.parts]
    return sum({id(part): bytes_of_column(part) for part in parts}.values())  # text and ids of one tensor count once


def bytes_of_column(values: Any) -> int:
    """Return about how many bytes a column keeps: of a list, by some of its values."""
    if hasattr(values, "nbytes"):
        return int(values.nbytes)
    if not values:
        return 0
    some = values[:: len(values) // LOOKED_AT + 1]
    return len(values) * (POINTER + sum(map(bytes_of_value, some)) // len(some))


def bytes_of_value(value: Any) -> int:
    """Return about how many bytes a JSON-ready value keeps, with all that is in it."""
    inside = (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sys.getsizeof(value) + sum(map(bytes_of_value, inside))
