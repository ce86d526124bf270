"""Whole columns: how the rows of a batch are taken out of what the trainer holds them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from verl_rollout_dump.config.schema import Strategy
from verl_rollout_dump.serialization import arrays, lists, pandas_types, torch_types
from verl_rollout_dump.serialization import column_shapes as alike
from verl_rollout_dump.serialization.report import Node
from verl_rollout_dump.serialization.rulebook import find_rule
from verl_rollout_dump.serialization.values import ConversionError, JsonValue, type_name

if TYPE_CHECKING:
    from verl_rollout_dump.serialization.conversion import Walk


def column(walk: Walk, values: Any, node: Node) -> list[JsonValue]:
    """Return the n rows of a column as JSON-ready values, whatever holds them and whatever they raise."""
    try:
        return column_at_once(walk, values, node)
    except ConversionError:
        raise
    except Exception:  # some row is worse than any rule allows for: each is tried alone, and marked if it raises
        return column_of_suspects(walk, values, node)


def column_at_once(walk: Walk, values: Any, node: Node) -> list[JsonValue]:
    """Return the rows of a column by the type that holds them."""
    rule = find_rule(type(values))
    held = HOLDERS.get(rule.name) if rule is not None else None
    return held(walk, values, node) if held is not None else column_of_list(walk, list(values), node)


def column_of_suspects(walk: Walk, values: Any, node: Node) -> list[JsonValue]:
    """Return the rows of a column one by one; raise if it cannot even be read row by row."""
    try:
        rows = list.copy(values) if issubclass(type(values), list) else list(values)
    except Exception as error:
        problem = f"reading its rows raised {type_name(type(error))}"
        instead = "return a list with one value per record"
        raise walk.error(node, type_name(type(values)), problem, instead) from error
    out = []
    for record, value in enumerate(rows):
        walk.record = record
        out.append(walk.guarded(value, node, 0))
    return out


def column_of_list(walk: Walk, values: list[Any], node: Node) -> list[JsonValue]:
    """Return the values of a list, which is the walk's own."""
    if not lists.ATOMS.issuperset(map(type, values)):
        shape = alike.survey(walk, values, 0, frozenset())
        if shape is not None:
            return shape.convert(walk, node, 0, itself)
    return lists.one_by_one(walk, values, node, 0, itself)


def itself(place: int) -> int:
    """Return the record of a row of a column: that of its place."""
    return place


def column_of_array(walk: Walk, values: Any, node: Node) -> list[JsonValue]:
    """Return the rows of an array: all at once if they are numbers and nothing is to be cut."""
    array = np.asarray(values)
    if type(values) is not np.ndarray or not fits(walk, array):
        return column_of_list(walk, list(values), node)
    if array.dtype.kind in "OUT" and array.ndim == 1:
        return column_of_text(walk, array, node)
    if array.dtype.kind not in arrays.NUMBER_KINDS:
        return column_of_list(walk, list(array), node)
    return rows_of_numbers(walk, array, node, np.ndarray if array.ndim > 1 else array.dtype.type)


def column_of_text(walk: Walk, array: np.ndarray, node: Node) -> list[JsonValue]:
    """Return the items of an array of objects or of text."""
    if array.dtype.kind == "U":
        count(walk, node, array.dtype.type, len(array))
    return column_of_list(walk, array.tolist(), node)


def column_of_tensor(walk: Walk, values: Any, node: Node) -> list[JsonValue]:
    """Return the rows of a tensor: all at once, a nested one row by row."""
    if values.is_nested or values.is_meta:
        return column_of_list(walk, list(values.detach().unbind()), node)
    array = torch_types.as_numpy(values)
    if not fits(walk, array):
        return column_of_list(walk, list(values.detach().unbind()), node)
    return rows_of_numbers(walk, array, node, type(values))


def column_of_data(walk: Walk, values: Any, node: Node) -> list[JsonValue]:
    """Return the rows of what has a `tolist` that takes nothing apart but itself."""
    return column_of_list(walk, list(values.tolist()), node)


def column_of_cells(walk: Walk, values: Any, node: Node) -> list[JsonValue]:
    """Return the items of a Series, an Index or an extension array of pandas."""
    return column_of_list(walk, pandas_types.cells(values), node)


def fits(walk: Walk, array: np.ndarray) -> bool:
    """Say whether the rows of an array are written in full, and as numbers."""
    if Strategy(walk.book.config.strategy) is Strategy.str_fallback:
        return False
    limit = walk.max_elements
    row_size = array[0].size if array.ndim > 1 and len(array) else 1
    return 1 <= array.ndim <= walk.max_depth and (limit is None or row_size <= limit)


def rows_of_numbers(walk: Walk, array: np.ndarray, node: Node, kind: type[Any]) -> list[JsonValue]:
    """Return the rows of an array of numbers."""
    rows = len(array)
    count(walk, node, kind, rows)
    place = node
    for _ in range(array.ndim - 1):
        place = place.grow(None)
    row_size = array.size // max(rows, 1)
    name = type_name(array.dtype.type)
    return arrays.numbers(walk, array, place, name, lambda number: number // row_size)  # type: ignore[return-value]


def count(walk: Walk, node: Node, kind: type[Any], rows: int) -> None:
    """Count the rows of a column by their type."""
    entry = walk.entry_of(kind)
    if entry.counted and rows:
        node.count(entry.key, 0, rows)


# By the name of the rule of the type that holds the rows.
HOLDERS: dict[str, Callable[[Walk, Any, Node], list[JsonValue]]] = {
    "numpy_array": column_of_array,
    "tensor": column_of_tensor,
    "pandas_series": column_of_cells,
    "pandas_array": column_of_cells,
    "non_tensor": column_of_data,
    "non_tensor_stack": column_of_data,
}
