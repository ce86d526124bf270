"""pandas: missing values, times, series and frames. Recognised by name, so pandas is never imported here."""

from __future__ import annotations

from typing import Any

import numpy as np

from verl_rollout_dump.serialization.rule import Context, Node
from verl_rollout_dump.serialization.stdlib_types import duration_of_unit
from verl_rollout_dump.serialization.values import JsonValue


def timedelta(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a Timedelta as an ISO 8601 duration, exact to the nanosecond."""
    return duration_of_unit(int(value.as_unit("ns").value), "ns")


def series(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a Series as a list, one with labels (any index but 0 to n-1) as an object of its labels."""
    if _has_default_index(value):
        return context.items(cells(value), node, depth)
    return context.pairs(list(zip(cells(value.index), cells(value), strict=True)), node, depth)


def frame(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a DataFrame as a list of rows, each an object; an index with labels comes first in it."""
    columns = [cells(value.iloc[:, place]) for place in range(value.shape[1])]
    names = value.columns.tolist()
    if not _has_default_index(value):
        names.insert(0, "index" if value.index.name is None else value.index.name)
        columns.insert(0, cells(value.index))
    if not columns:
        return [{} for _ in range(len(value))]
    place = node.grow(None)
    rows = zip(*columns, strict=True)
    return [context.pairs(list(zip(names, row, strict=True)), place, depth + 1) for row in rows]


def cells(value: Any) -> list[Any]:
    """Return the items of a series, an index or an extension array; missing items are None.

    pandas uses NaN for missing text and categories; in a column of floats, NaN remains a number.
    """
    items = list(value.tolist())
    if isinstance(value.dtype, np.dtype):
        return items
    return [None if gone else item for item, gone in zip(items, list(value.isna()), strict=True)]


def _has_default_index(value: Any) -> bool:
    """Return whether the rows are numbered 0 to n-1, so that a list says as much."""
    index = value.index
    return type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)


def values(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return an Index, a Categorical or an extension array as a list."""
    return context.items(cells(value), node, depth)


def interval(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return an Interval as an object of its two ends and which of them belongs to it."""
    return context.pairs([("left", value.left), ("right", value.right), ("closed", value.closed)], node, depth)


def extent(value: Any) -> dict[str, JsonValue]:
    """Return the shape of a series or a frame."""
    return {"shape": [int(size) for size in value.shape]}


def whole_text(value: Any) -> str:
    """Return the whole text of a series or a frame: `str()` leaves out the middle."""
    return str(value.to_string())


def list_text(value: Any) -> str:
    """Return the whole text of an index or an extension array."""
    return f"{type(value).__name__}({cells(value)})"
