"""How much memory a step keeps while it waits to be written: an estimate, made where several steps wait.

Token ids are by far the largest part, and known exactly. Of other columns a few values are looked at.
"""

from __future__ import annotations

import sys
from typing import Any

from verl_rollout_dump.snapshot import StepSnapshot

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
