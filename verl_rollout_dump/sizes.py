"""How much memory a step keeps while it waits to be written: an estimate, made where several steps wait.

Token ids are by far the largest part, and known exactly. Of other columns a few values are looked at.
"""

from __future__ import annotations

from typing import Any

from verl_rollout_dump.serialization import encode_record
from verl_rollout_dump.snapshot import StepSnapshot, TakenField, ValuesField

LOOKED_AT = 8  # values of a column
BYTES_PER_OBJECT = 64  # what Python adds to a value


def bytes_of(snapshot: StepSnapshot) -> int:
    """Return about how many bytes of memory a snapshot keeps."""
    arrays: dict[int, int] = {}  # by identity: text and ids of one tensor count once
    values = 0
    for field in snapshot.fields:
        if isinstance(field, TakenField):
            values += field.column.nbytes
        elif isinstance(field, ValuesField):
            values += bytes_of_values(field)
        else:
            parts: list[Any] = [field.tokens.numbers, field.tokens.mask, field.tokens.offsets]
            arrays |= {id(part): int(part.nbytes) for part in parts if part is not None}
    return values + sum(arrays.values())


def bytes_of_values(field: ValuesField) -> int:
    """Return about how many bytes a column keeps, by some of its values."""
    n = len(field.values)
    if n == 0:
        return 0
    some = [field.values[row] for row in range(0, n, max(1, n // LOOKED_AT))]
    encoded = sum(len(encode_record({field.name: value})) for value in some)
    return n * (BYTES_PER_OBJECT + encoded // len(some))
