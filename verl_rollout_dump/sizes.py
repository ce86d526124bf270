"""How much memory a step keeps while it waits to be written: an estimate, made where several steps wait.

Token ids are by far the largest part, and known exactly. Of other columns a few values are looked at.
"""

from __future__ import annotations

import sys
from typing import Any

from verl_rollout_dump.snapshot import (
    CopiedField,
    FieldOfTokens,
    RepeatedField,
    StepSnapshot,
    TextField,
    TokensField,
    UnreadTokens,
    ValuesField,
)

LOOKED_AT = 8  # values of a column
POINTER = 8


def bytes_of(snapshot: StepSnapshot) -> int:
    """Return about how many bytes of memory a snapshot keeps."""
    parts = [part for field in snapshot.fields for part in PARTS[type(field)](field)]
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


def parts_of_tokens(field: FieldOfTokens) -> list[Any]:
    """Return the arrays of token ids."""
    tokens = field.tokens
    return [part for part in (tokens.numbers, tokens.mask, tokens.offsets) if part is not None]


PARTS: dict[type, Any] = {
    TextField: parts_of_tokens,
    TokensField: parts_of_tokens,
    UnreadTokens: lambda field: [field.numbers, field.mask],
    ValuesField: lambda field: [field.values],
    RepeatedField: lambda field: [],
    CopiedField: lambda field: [field.values],
}
