"""What a column is, and how rows of one are taken: the same for every writer.

A column holds one value per rollout. Everything else that stands under the name of an extra (a str, a dict, a named
tuple, a 0-d array, any single object) is one value for the whole batch and is repeated on each record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verl_rollout_dump.batch.deferred import DeferredRows, resolved

_PLAIN_COLUMNS = frozenset({list, tuple, DeferredRows})
_SINGLE_VALUES = (str, bytes, bytearray, memoryview, Mapping)
# What containers of values have that are neither sequences nor arrays: Arrow's, polars' and array-API columns.
_COLUMN_METHODS = ("to_pylist", "to_list", "tolist", "__array__", "__dlpack__")


def is_column(values: Any) -> bool:
    """Whether this is a column: a sequence (but no text, mapping or named tuple), or an array with an axis."""
    if type(values) in _PLAIN_COLUMNS:
        return True
    if isinstance(values, _SINGLE_VALUES) or hasattr(values, "_fields"):
        return False
    if hasattr(values, "ndim") or hasattr(values, "shape"):
        return len(getattr(values, "shape", ())) > 0 or getattr(values, "ndim", 0) > 0
    if isinstance(values, Sequence):
        return True
    kind = type(values)
    return hasattr(kind, "__len__") and hasattr(kind, "__getitem__") and _has_any(kind, _COLUMN_METHODS)


def take_rows(values: Any, rows: Sequence[int] | None) -> Any:
    """Return the chosen rows of a column or a matrix, as the kind of container it is.

    `rows` are row numbers in rising order, or None for all of them. A container that takes no list of row numbers
    becomes a list.
    """
    values = resolved(values)
    if rows is None:
        return values
    if getattr(values, "is_nested", False):
        return _chosen(values.unbind(), rows)  # a jagged tensor takes no list of rows
    if hasattr(values, "iloc"):
        return values.iloc[list(rows)]  # a Series takes labels in its brackets
    return values[list(rows)] if hasattr(values, "ndim") else _chosen(values, rows)


def columns_of(records: Sequence[Mapping[Any, Any] | None]) -> dict[Any, list[Any]]:
    """Turn one mapping per rollout into columns: the union of their keys, in order of first appearance.

    A rollout that lacks a key has None there (verl-project/verl#7151: keys were taken from sample 0 alone).
    """
    names = dict.fromkeys(name for record in records for name in record or ())
    return {name: [(record or {}).get(name) for record in records] for name in names}


def named_columns(extras: Any) -> Mapping[Any, Any]:
    """Return extras as a mapping of name -> column or single value.

    Takes a mapping, None, a table with named columns (a pandas or polars DataFrame, an Arrow table), or a sequence
    of one mapping per rollout. Raises `TypeError` for anything else.
    """
    if extras is None:
        return {}
    if isinstance(extras, Mapping):
        return extras
    names = getattr(extras, "column_names", None) or getattr(extras, "columns", None)
    if names is not None:
        return {name: extras[name] for name in names}
    if isinstance(extras, Sequence) and all(record is None or isinstance(record, Mapping) for record in extras):
        return columns_of(extras)
    raise TypeError(f"extras are of type {type(extras).__name__}; expected a mapping of columns or one per rollout")


def _chosen(values: Any, rows: Sequence[int]) -> list[Any]:
    return [values[row] for row in rows]


def _has_any(kind: type[Any], names: Sequence[str]) -> bool:
    return any(hasattr(kind, name) for name in names)
