"""numpy: arrays of every kind, and their scalars."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import orjson

from verl_rollout_dump.serialization import arrays
from verl_rollout_dump.serialization.rule import Context, Node
from verl_rollout_dump.serialization.stdlib_types import duration_of_unit
from verl_rollout_dump.serialization.type_names import type_name
from verl_rollout_dump.serialization.values import JsonValue


def ndarray(context: Context, value: np.ndarray, node: Node, depth: int) -> JsonValue:
    """Return an array of any dtype as nested lists; an array without axes as its value (verl-project/verl#5810)."""
    array = np.asarray(value)
    if depth + array.ndim - 1 > context.max_depth:
        return context.too_deep(value, node)
    place = below(node, array.ndim)
    if array.dtype.kind in arrays.NUMBER_KINDS:
        return arrays.numbers(context, array, place, type_name(array.dtype.type), context.here)
    items = array.ravel().tolist() if array.dtype.kind in "OUT" else list(array.ravel())
    done = [context.value(item, place, depth + array.ndim - 1) for item in items]
    return arrays.nested(done, array.shape)  # type: ignore[no-any-return]


def below(node: Node, levels: int) -> Node:
    """Return the place of the items of an array with so many axes."""
    for _ in range(levels):
        node = node.grow(None)
    return node


def masked_array(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a masked array; what is masked is null."""
    data, mask = value.data, np.ma.getmaskarray(value)
    if mask.dtype.names is not None:
        return _nested_records(context, value, node, depth)
    kept = np.where(mask, np.zeros((), dtype=data.dtype), data)
    flat: Any = ndarray(context, kept.ravel(), node, depth)
    done = [None if hidden else item for item, hidden in zip(flat, mask.ravel().tolist(), strict=True)]
    return arrays.nested(done, data.shape)  # type: ignore[no-any-return]


def _nested_records(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a masked array of records: a masked field is null."""
    place, inside = below(node, value.ndim), depth + value.ndim
    rows = [[(name, row[name]) for name in value.dtype.names] for row in value.ravel()]
    return arrays.nested([context.pairs(row, place, inside) for row in rows], value.shape)  # type: ignore[no-any-return]


def missing(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return null for a missing value."""
    return None


def boolean(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a numpy bool."""
    return bool(value)


def integer(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a numpy integer."""
    return int(value)


def double(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a float64."""
    number = float.__float__(value)
    return number if math.isfinite(number) else context.non_finite(number, type_name(type(value)), node)


def single(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a float32 as the shortest decimal that reads back to it."""
    number: float | None = orjson.loads(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))
    return context.non_finite(float(value), type_name(type(value)), node) if number is None else number


def number(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a number of any numpy type."""
    return arrays.numbers(context, np.asarray(value), node, type_name(type(value)), context.here)


def datetime64(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return ISO 8601 text in the unit of the value, null for NaT (ijl/orjson#180)."""
    return None if np.isnat(value) else str(np.datetime_as_string(value))


def timedelta64(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return an ISO 8601 duration, null for NaT, a number where there is no unit."""
    if np.isnat(value):
        return None
    unit, step = np.datetime_data(value.dtype)
    count = int(value.astype(np.int64)) * step
    return count if unit == "generic" else duration_of_unit(count, unit)


def void(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a record by its field names (bluesky/bluesky#1941), raw bytes under their marker."""
    names = value.dtype.names
    if names is None:
        return context.data(value.tobytes(), type_name(type(value)), node)
    return context.pairs([(name, value[name]) for name in names], node, depth)


def dtype(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return the name of a dtype."""
    return context.text(str(value), type_name(type(value)), node)


def array_extent(value: Any) -> dict[str, JsonValue]:
    """Return the shape and the dtype of an array."""
    array: np.ndarray = np.asarray(value)
    return {"shape": list(array.shape), "dtype": str(array.dtype)}


def shape_extent(value: Any) -> dict[str, JsonValue]:
    """Return the shape of a matrix."""
    return {"shape": [int(size) for size in value.shape]}


def array_text(value: Any) -> str:
    """Return the whole text of an array: numpy's own leaves out the middle of a long one."""
    with np.printoptions(threshold=sys.maxsize):
        return str(np.asarray(value))


def masked_text(value: Any) -> str:
    """Return the whole text of a masked array, dashes for what is masked."""
    if value.ndim == 0 or value.dtype.names is not None:
        return str(value)
    shown = np.where(np.ma.getmaskarray(value), "--", value.data.astype(object))
    with np.printoptions(threshold=sys.maxsize, formatter={"all": str}):
        return str(shown)
