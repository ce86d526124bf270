"""The fields of a snapshot: what each keeps in memory, and how it becomes what is written.

`resolve` runs on the writing thread. It may run again if writing fails, so it changes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from verl_rollout_dump.batch.columns import take_rows
from verl_rollout_dump.batch.deferred import DeferredRows
from verl_rollout_dump.batch.host_copies import HostCopies
from verl_rollout_dump.dump.token_rows import TokenRows, token_rows
from verl_rollout_dump.serialization import ConversionReport, JsonValue, Serializer

_SAMPLED_VALUES = 8  # how many values of a list are looked at to estimate its size
_POINTER_BYTES = 8


class _StepRows(Protocol):
    """What a field needs to know of the step that it belongs to."""

    copies: HostCopies
    # The numbers of the rows that are written.
    kept: Sequence[int]

    @property
    def rows(self) -> Sequence[int] | None:
        """The same; None if all rows are written."""


@dataclass
class TokenField:
    """(n, length) numbers, one per token; a part of each row is real."""

    name: str
    tokens: TokenRows

    def resolve(self, step: _StepRows, report: ConversionReport) -> TokenField:
        """Return the rows that are written."""
        return replace(self, tokens=self.tokens.take(step.rows))

    @property
    def parts(self) -> list[Any]:
        """The objects that it keeps in memory."""
        parts = self.tokens.numbers, self.tokens.mask, self.tokens.offsets
        return [part for part in parts if part is not None]

    @property
    def has_tokens(self) -> bool:
        """Whether there is at least one token."""
        return self.tokens.numbers.size > 0


class TextField(TokenField):
    """Token ids that become text."""


class TokenArrayField(TokenField):
    """Token ids or log-probabilities that are written as arrays of numbers."""


@dataclass(slots=True)
class PendingTokenField:
    """Numbers per token (n, length) whose mask is computed by the writing thread."""

    name: str
    numbers: Any
    mask: DeferredRows
    kind: type[TokenField]

    def resolve(self, step: _StepRows, report: ConversionReport) -> TokenField:
        """Return the rows that are written. Raises `BatchError` if the mask does not fit."""
        tokens = token_rows(self.name, self.numbers, self.mask.value, step.copies.array)
        return self.kind(self.name, tokens).resolve(step, report)

    @property
    def parts(self) -> list[Any]:
        """The objects that it keeps in memory."""
        return [self.numbers, self.mask]

    @property
    def has_tokens(self) -> bool:
        """Whether there is at least one token."""
        return 0 not in self.numbers.shape


@dataclass(slots=True)
class ValuesField:
    """One JSON-ready value for each row that is written."""

    name: str
    values: Sequence[JsonValue]

    def resolve(self, step: _StepRows, report: ConversionReport) -> ValuesField:
        """Return the field itself."""
        return self

    @property
    def parts(self) -> list[Any]:
        """The objects that it keeps in memory."""
        return [self.values]


@dataclass(slots=True)
class RepeatedField:
    """One JSON-ready value for all rows."""

    name: str
    value: JsonValue

    def resolve(self, step: _StepRows, report: ConversionReport) -> ValuesField:
        """Return the value once for each row that is written."""
        return ValuesField(self.name, [self.value] * len(step.kept))

    @property
    def parts(self) -> list[Any]:
        """The objects that it keeps in memory: next to nothing."""
        return []


@dataclass(slots=True)
class CopiedField:
    """n values that nobody else can change, converted by the writing thread."""

    name: str
    values: Any
    serializer: Serializer

    def resolve(self, step: _StepRows, report: ConversionReport) -> ValuesField:
        """Convert the rows that are written. Raises `ConversionError` if the config asks for it."""
        chosen = take_rows(self.values, step.rows)
        return ValuesField(self.name, self.serializer.convert_column(self.name, chosen, report))

    @property
    def parts(self) -> list[Any]:
        """The objects that it keeps in memory."""
        return [self.values]


SnapshotField = TokenField | PendingTokenField | ValuesField | RepeatedField | CopiedField
# What is left when everything is converted.
WrittenField = TokenField | ValuesField


def nbytes_of(fields: Sequence[SnapshotField]) -> int:
    """Estimate how many bytes of memory fields keep. Token ids are by far the largest part, and known exactly."""
    parts = [part for field in fields for part in field.parts]
    return sum({id(part): _column_nbytes(part) for part in parts}.values())  # text and ids of one tensor count once


def _column_nbytes(values: Any) -> int:
    """Estimate the bytes of a column; of a list, from some of its values."""
    if hasattr(values, "nbytes"):
        return int(values.nbytes)
    if not values:
        return 0
    some = values[:: len(values) // _SAMPLED_VALUES + 1]
    return len(values) * (_POINTER_BYTES + sum(map(_value_nbytes, some)) // len(some))


def _value_nbytes(value: Any) -> int:
    """Estimate the bytes of a JSON-ready value with everything in it."""
    inside = (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sys.getsizeof(value) + sum(map(_value_nbytes, inside))
