"""Columns that are taken now and converted later, on another thread: the copy is the small part of the work.

What is taken shares nothing that a trainer may still change. Plain containers of plain values are taken apart
(`alike.survey`), arrays of numbers are copied. Everything else only its conversion can copy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from verl_rollout_dump.serialization import alike, arrays, columns, torch_types
from verl_rollout_dump.serialization.alike import Atoms, Groups, Nested, Table
from verl_rollout_dump.serialization.arrays import RecordOf
from verl_rollout_dump.serialization.report import ConversionReport, Node
from verl_rollout_dump.serialization.values import JsonValue
from verl_rollout_dump.serialization.walk import Walk

if TYPE_CHECKING:
    from verl_rollout_dump.serialization.rulebook import Rulebook

LOOKED_AT = 8  # values of a list, to tell how much memory all keep
POINTER = 8


@dataclass(frozen=True, slots=True)
class NumberRows:
    """The rows of an array of numbers (n, ...), and the type that held them."""

    array: np.ndarray
    kind: type[Any]

    def convert(self, walk: Walk, node: Node, depth: int, record_of: RecordOf) -> list[JsonValue]:
        """Return the rows as JSON-ready."""
        return columns.rows_of_numbers(walk, self.array, node, self.kind)


Taken: TypeAlias = "Atoms | Table | Nested | Groups | NumberRows"


@dataclass(frozen=True, slots=True)
class TakenColumn:
    """A column of n rows that nobody else can change."""

    book: Rulebook
    field: str
    taken: Taken

    def convert(self, report: ConversionReport) -> list[JsonValue]:
        """Return the n rows as JSON-ready values, as `Serializer.convert_column` does; may be called again."""
        return self.taken.convert(Walk(self.book, self.field), report.field(self.field), 0, columns.itself)

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory the column keeps."""
        return bytes_of(self.taken)


def take(walk: Walk, values: Any) -> Taken | None:
    """Return a copy of the rows of a column; None where only their conversion can make one."""
    taker = TAKERS.get(type(values))
    if taker is not None:
        return taker(walk, values)
    torch = sys.modules.get("torch")
    return take_tensor(walk, values) if torch is not None and type(values) is torch.Tensor else None


def take_list(walk: Walk, values: Any) -> Taken | None:
    """Take a list or tuple."""
    return alike.survey(walk, list(values), 0, frozenset())


def take_array(walk: Walk, values: np.ndarray) -> Taken | None:
    """Take an array of numbers, or of objects side by side."""
    if values.dtype.kind == "O" and values.ndim == 1:
        return take_list(walk, values.tolist())
    if values.dtype.kind not in arrays.NUMBER_KINDS or not columns.fits(walk, values):
        return None
    return NumberRows(values.copy(), np.ndarray if values.ndim > 1 else values.dtype.type)


def take_tensor(walk: Walk, values: Any) -> Taken | None:
    """Take a tensor of numbers."""
    if values.is_nested or values.is_meta:
        return None
    array = torch_types.as_numpy(values)
    return NumberRows(array.copy(), type(values)) if columns.fits(walk, array) else None


# By the exact type that holds the rows: a type made of one of these may have ways of its own.
TAKERS: dict[type[Any], Callable[[Walk, Any], Taken | None]] = {
    list: take_list,
    tuple: take_list,
    np.ndarray: take_array,
}


def bytes_of(taken: Taken) -> int:
    """Return about how many bytes of memory these rows keep; of lists a few values are looked at."""
    return SIZES[type(taken)](taken)


def bytes_of_values(values: list[Any]) -> int:
    """Return about how many bytes a list and its values keep."""
    if not values:
        return 0
    # Numbers are all of one size, texts are not.
    some = values[:: len(values) // LOOKED_AT + 1] if type(values[0]) is str else values[:1]
    return len(values) * (POINTER + sum(map(sys.getsizeof, some)) // len(some))


SIZES: dict[type[Any], Callable[[Any], int]] = {
    Atoms: lambda taken: bytes_of_values(taken.values),
    Table: lambda taken: sum(map(bytes_of, taken.columns)),
    Nested: lambda taken: bytes_of_values(taken.ends) + bytes_of(taken.items),
    Groups: lambda taken: sum(bytes_of_values(places) + bytes_of(shape) for places, shape in taken.members),
    NumberRows: lambda taken: int(taken.array.nbytes),
}
