"""Data of other libraries: Arrow, polars, sympy, msgspec, ml_dtypes, proxies, and whatever offers the array protocol.

All are recognised by name or by what their class offers; none of the libraries is imported here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from verl_rollout_dump.serialization import numpy_types
from verl_rollout_dump.serialization.rule import Context, Node
from verl_rollout_dump.serialization.type_names import type_name
from verl_rollout_dump.serialization.values import JsonValue

_DOUBLE_BITS = 53  # of precision; a sympy.Float with more digits is written as text


def arrow_scalar(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return an Arrow scalar as the Python value that it holds."""
    return context.value(value.as_py(), node, depth)


def arrow_values(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return an Arrow array as a list, an Arrow table or record batch as a list of rows."""
    return context.items(value.to_pylist(), node, depth)


def arrow_text(value: Any) -> str:
    """Return the whole text of Arrow data: its own leaves out the middle."""
    return str(value.to_pylist())


def polars_series(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a polars Series as a list."""
    return context.items(value.to_list(), node, depth)


def polars_frame(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a polars DataFrame as a list of rows, each an object."""
    return context.items(value.to_dicts(), node, depth)


def polars_query(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return the marker of a LazyFrame, which is a query and has no rows yet."""
    return context.not_written(value, "a query that has not run", {}, node)


def series_text(value: Any) -> str:
    """Return the whole text of a polars Series."""
    return str(value.to_list())


def frame_text(value: Any) -> str:
    """Return the whole text of a polars DataFrame."""
    return str(value.to_dicts())


def sympy_integer(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a sympy Integer as a number."""
    return context.value(int(value), node, depth)


def sympy_float(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a sympy Float, NaN or infinity as a number; one of more digits than a double has as text."""
    if getattr(value, "_prec", 0) <= _DOUBLE_BITS:
        return context.number(float(value), type_name(type(value)), node)
    return context.text(str(value), type_name(type(value)), node)


def sympy_truth(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return sympy's true or false."""
    return bool(value)


def sympy_text(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a rational number or an expression as sympy writes it."""
    return context.text(str(value), type_name(type(value)), node)


def msgspec_struct(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a msgspec Struct as an object of its fields; fields that are UNSET are left out."""
    unset = getattr(sys.modules.get("msgspec"), "UNSET", None)
    fields = [(name, getattr(value, name)) for name in value.__struct_fields__]
    return context.pairs([(name, item) for name, item in fields if item is not unset or unset is None], node, depth)


def narrow_float(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a bfloat16 or an 8-, 6- or 4-bit float of ml_dtypes as its exact value."""
    number = float(value)
    return number if math.isfinite(number) else context.non_finite(number, type_name(type(value)), node)


def narrow_integer(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a 1-, 2- or 4-bit integer of ml_dtypes."""
    return int(value)


def manager_proxy(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return what the process of a `multiprocessing` manager holds behind a proxy."""
    return context.value(value._getvalue(), node, depth)


def wrapped(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return the object that a lazy or transparent proxy stands for."""
    return context.value(value.__wrapped__, node, depth)


def array_like(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return what offers `__array__` or `__dlpack__` as numpy reads it."""
    return _offered(context, value, node, depth, as_array)


def _offered(context: Context, value: Any, node: Node, depth: int, read: Callable[[Any], Any]) -> JsonValue:
    """Return what a class offers of itself; one that fails to is a value without a rule."""
    try:
        content = read(value)
    except Exception:  # the class promises a protocol that it does not keep: its marker, or its text, is counted
        return context.unknown(value, node, depth)
    return context.value(content, node, depth)


def as_array(value: Any) -> np.ndarray:
    """Return what offers `__array__` or `__dlpack__` as an array. Raises what the value raises."""
    array = np.asarray(value) if hasattr(type(value), "__array__") else np.from_dlpack(value)
    if array.dtype == object and array.ndim == 0:
        raise TypeError(f"{type_name(type(value))} offers an array protocol and no array")
    return array


def array_like_text(value: Any) -> str:
    """Return the whole text of what offers an array protocol."""
    return numpy_types.array_text(as_array(value))


def listed(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return what offers `to_pylist` or `tolist` as these give it."""
    return _offered(context, value, node, depth, _as_list)


def mapped(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return what offers `_asdict` or `to_dict`, or `keys` and items by key, as an object."""
    return _offered(context, value, node, depth, _as_dict)


def _as_list(value: Any) -> Any:
    return value.to_pylist() if hasattr(type(value), "to_pylist") else value.tolist()


def _as_dict(value: Any) -> Any:
    kind = type(value)
    for method in ("_asdict", "to_dict"):
        if hasattr(kind, method):
            return getattr(value, method)()
    return {key: value[key] for key in value.keys()}  # noqa: SIM118
