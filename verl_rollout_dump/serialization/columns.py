"""Converts whole columns, whatever container holds their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from verl_rollout_dump.config.schema import Strategy
from verl_rollout_dump.serialization import arrays, column_shapes, library_types, lists, pandas_types, torch_types
from verl_rollout_dump.serialization.conversion import Conversion
from verl_rollout_dump.serialization.rule import Node
from verl_rollout_dump.serialization.rulebook import find_rule
from verl_rollout_dump.serialization.type_names import type_name
from verl_rollout_dump.serialization.values import ConversionError, JsonValue


def column(context: Conversion, values: Any, node: Node) -> list[JsonValue]:
    """Return the n rows of a column as JSON-ready values, for any container and any error of a row."""
    try:
        return _column_at_once(context, values, node)
    except ConversionError:
        raise
    except Exception:  # a row breaks the whole column: each row is converted alone, and marked if it raises
        return _column_of_suspects(context, values, node)


def _column_at_once(context: Conversion, values: Any, node: Node) -> list[JsonValue]:
    """Return the rows of a column by the type that holds them."""
    rule = find_rule(type(values))
    held = _HOLDERS.get(rule.name) if rule is not None else None
    return held(context, values, node) if held is not None else _column_of_list(context, list(values), node)


def _column_of_suspects(context: Conversion, values: Any, node: Node) -> list[JsonValue]:
    """Return the rows of a column one by one; raise if it cannot even be read row by row."""
    try:
        rows = list.copy(values) if issubclass(type(values), list) else list(values)
    except Exception as error:
        problem = f"reading its rows raised {type_name(type(error))}"
        instead = "return a list with one value per record"
        raise context.error(node, type_name(type(values)), problem, instead) from error
    out = []
    for record, value in enumerate(rows):
        context.record = record
        out.append(context.guarded(value, node, 0))
    return out


def _column_of_list(context: Conversion, values: list[Any], node: Node) -> list[JsonValue]:
    """Return the values of a list that belongs to the conversion."""
    if not lists.ATOMS.issuperset(map(type, values)):
        shape = column_shapes.survey(context, values, 0, frozenset())
        if shape is not None:
            return shape.convert(context, node, 0, _itself)
    return lists.one_by_one(context, values, node, 0, _itself)


def _itself(place: int) -> int:
    """Return the record of a row of a column, which is its place."""
    return place


def _column_of_array(context: Conversion, values: Any, node: Node) -> list[JsonValue]:
    """Return the rows of an array: all at once if they are numbers and nothing is to be cut."""
    array = np.asarray(values)
    if type(values) is not np.ndarray or not _fits(context, array):
        return _column_of_list(context, list(values), node)
    if array.dtype.kind in "OUT" and array.ndim == 1:
        return _column_of_text(context, array, node)
    if array.dtype.kind not in arrays.NUMBER_KINDS:
        return _column_of_list(context, list(array), node)
    return _rows_of_numbers(context, array, node, np.ndarray if array.ndim > 1 else array.dtype.type)


def _column_of_text(context: Conversion, array: np.ndarray, node: Node) -> list[JsonValue]:
    """Return the items of an array of objects or of text."""
    if array.dtype.kind == "U":
        _count(context, node, array.dtype.type, len(array))
    return _column_of_list(context, array.tolist(), node)


def _column_of_tensor(context: Conversion, values: Any, node: Node) -> list[JsonValue]:
    """Return the rows of a tensor: all at once, a nested one row by row."""
    if values.is_nested or values.is_meta:
        return _column_of_list(context, list(values.detach().unbind()), node)
    array = torch_types.as_numpy(values)
    if not _fits(context, array):
        return _column_of_list(context, list(values.detach().unbind()), node)
    return _rows_of_numbers(context, array, node, type(values))


def _column_of_data(context: Conversion, values: Any, node: Node) -> list[JsonValue]:
    """Return the rows of a container whose `tolist` leaves its rows as they are."""
    return _column_of_list(context, list(values.tolist()), node)


def _column_of_arrow(context: Conversion, values: Any, node: Node) -> list[JsonValue]:
    """Return the items of an Arrow array, or the rows of an Arrow table."""
    return _column_of_list(context, values.to_pylist(), node)


def _column_of_series(context: Conversion, values: Any, node: Node) -> list[JsonValue]:
    """Return the items of a polars Series."""
    return _column_of_list(context, values.to_list(), node)


def _column_of_array_like(context: Conversion, values: Any, node: Node) -> list[JsonValue]:
    """Return the rows of what offers an array protocol."""
    return _column_of_array(context, library_types.as_array(values), node)


def _column_of_cells(context: Conversion, values: Any, node: Node) -> list[JsonValue]:
    """Return the items of a Series, an Index or an extension array of pandas."""
    return _column_of_list(context, pandas_types.cells(values), node)


def _fits(context: Conversion, array: np.ndarray) -> bool:
    """Return whether the rows of an array are written completely and as numbers."""
    if Strategy(context.config.strategy) is Strategy.str_fallback:
        return False
    limit = context.max_elements
    row_size = array[0].size if array.ndim > 1 and len(array) else 1
    return 1 <= array.ndim <= context.max_depth and (limit is None or row_size <= limit)


def _rows_of_numbers(context: Conversion, array: np.ndarray, node: Node, kind: type[Any]) -> list[JsonValue]:
    """Return the rows of an array of numbers."""
    rows = len(array)
    _count(context, node, kind, rows)
    place = node
    for _ in range(array.ndim - 1):
        place = place.grow(None)
    row_size = array.size // max(rows, 1)
    name = type_name(array.dtype.type)
    return arrays.numbers(context, array, place, name, lambda number: number // row_size)  # type: ignore[return-value]


def _count(context: Conversion, node: Node, kind: type[Any], rows: int) -> None:
    """Count the rows of a column by their type."""
    entry = context.entry_of(kind)
    if entry.counted and rows:
        node.count(entry.key, 0, rows)


# By the name of the rule of the type that holds the rows.
_HOLDERS: dict[str, Callable[[Conversion, Any, Node], list[JsonValue]]] = {
    "numpy_array": _column_of_array,
    "tensor": _column_of_tensor,
    "pandas_series": _column_of_cells,
    "pandas_array": _column_of_cells,
    "non_tensor": _column_of_data,
    "non_tensor_stack": _column_of_data,
    "arrow_values": _column_of_arrow,
    "polars_series": _column_of_series,
    "array_like": _column_of_array_like,
}
