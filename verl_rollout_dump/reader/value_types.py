"""Which types the values of a dump have, from all its records: the one reading that tables and `query` rely on.

Values are seen as stored, with their markers decoded for the purpose. A `ValueType` grows with each value, and two of
them merge, so several processes can share the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from verl_rollout_dump.reader.files import DumpFile
from verl_rollout_dump.reader.parallel import OnProgress, for_files
from verl_rollout_dump.reader.parsing import Record
from verl_rollout_dump.reader.rows import read_rows
from verl_rollout_dump.serialization import decode_markers

_DEEPEST = 32  # nested lists and objects; what is deeper counts as `Kind.OTHER`
_MOST_FIELDS = 1000  # of an object; one with more is a mapping of data, which has no fixed fields


class Kind(Enum):
    """A kind of value. Null is not a kind, since every column may hold it."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    BYTES = "bytes"
    LIST = "list"
    OBJECT = "object"
    OTHER = "other"  # a complex number, or nesting beyond `_DEEPEST`


_KINDS: dict[type, Kind] = {
    bool: Kind.BOOLEAN,
    int: Kind.INTEGER,
    float: Kind.NUMBER,
    str: Kind.TEXT,
    bytes: Kind.BYTES,
    list: Kind.LIST,
    dict: Kind.OBJECT,
}
_SHAPES_KEPT = 4096
_SAME_FOR_ALL_VALUES = frozenset((bool, float, str, type(None)))  # types whose values need no look at each


@dataclass
class ValueType:
    """The kinds of the values seen; of integers their range, of lists their items, of objects their fields.

    `has_markers` means that some values are markers: stored values must be decoded.
    """

    kinds: set[Kind] = field(default_factory=set)
    low: int = 0
    high: int = 0
    items: ValueType | None = None
    fields: dict[str, ValueType] = field(default_factory=dict)
    has_markers: bool = False

    @property
    def has_too_many_fields(self) -> bool:
        """Whether objects have more fields than a table can hold."""
        return len(self.fields) > _MOST_FIELDS

    def add(self, value: Any, depth: int = 0) -> None:
        """Add a stored value."""
        if value is None:
            return
        if type(value) is dict and is_marker(value):
            self.has_markers = True
            value = decode_markers(value)
        kind = _KINDS.get(type(value), Kind.OTHER) if depth < _DEEPEST else Kind.OTHER
        self.kinds.add(kind)
        if kind is Kind.INTEGER:
            self._add_range(value, value)
        elif kind is Kind.LIST:
            self._add_items(value, depth + 1)
        elif kind is Kind.OBJECT:
            self._add_fields(value, depth + 1)

    def _add_range(self, low: int, high: int) -> None:
        self.low, self.high = min(self.low, low), max(self.high, high)

    def _add_items(self, values: list[Any], depth: int) -> None:
        self.items = items = self.items or ValueType()
        types = set(map(type, values))
        if types == {int}:  # token ids: long lists
            items.kinds.add(Kind.INTEGER)
            items._add_range(min(values), max(values))
        elif types <= _SAME_FOR_ALL_VALUES:
            items.kinds.update(_KINDS[kind] for kind in types if kind is not type(None))
        else:
            for value in values:
                items.add(value, depth)

    def _add_fields(self, values: dict[str, Any], depth: int) -> None:
        for name, value in values.items():
            if self.has_too_many_fields:
                return
            self.fields.setdefault(name, ValueType()).add(value, depth)

    def merge(self, other: ValueType) -> None:
        """Add all values that another type has seen."""
        self.kinds |= other.kinds
        self._add_range(other.low, other.high)
        self.has_markers |= other.has_markers
        if other.items is not None:
            self.items = self.items or ValueType()
            self.items.merge(other.items)
        _merge_types(self.fields, other.fields)


_Columns = dict[str, ValueType]  # the columns of a table, in the order of their first appearance


def is_marker(value: dict[str, Any]) -> bool:
    """Return whether an object may be a marker: an object with one key that begins with `$`."""
    return len(value) == 1 and next(iter(value)).startswith("$")


def _merge_types(columns: _Columns, others: _Columns) -> None:
    """Add the types of other columns to columns."""
    for name, kind in others.items():
        columns.setdefault(name, ValueType()).merge(kind)


class _ColumnTypes:
    """Collects the types of the columns of records. Few values are inspected, since most records share a few shapes."""

    def __init__(self) -> None:
        self.columns: _Columns = {}
        self._shapes: dict[tuple[Any, ...], tuple[str, ...]] = {}

    def add(self, record: Record) -> None:
        """Add a record."""
        shape = (*record, *map(type, record.values()))
        names = self._shapes.get(shape)
        if names is None:
            for name, value in record.items():
                self.columns.setdefault(name, ValueType()).add(value)
            if len(self._shapes) >= _SHAPES_KEPT:
                self._shapes.clear()
            self._shapes[shape] = tuple(n for n, value in record.items() if type(value) not in _SAME_FOR_ALL_VALUES)
            return
        for name in names:
            self.columns[name].add(record[name])


class DumpTypes(NamedTuple):
    """The types of the columns of a dump, whether some record lacks `step`, and the unreadable lines met."""

    columns: _Columns
    lacks_step: bool
    unreadable: list[tuple[DumpFile, int]]


def _types_of_files(files: Sequence[DumpFile]) -> DumpTypes:
    """Read files and return the types of their columns. Raises `DumpReadError` for a file that cannot be read."""
    unreadable: list[tuple[DumpFile, int]] = []
    rows = read_rows(files, None, lambda file, line: unreadable.append((file, line)))
    return types_of_records(row.record for row in rows)._replace(unreadable=unreadable)


def types_of_records(records: Iterable[Record]) -> DumpTypes:
    """Read records and return the types of their columns."""
    types, lacks_step = _ColumnTypes(), False
    for record in records:
        types.add(record)
        lacks_step = lacks_step or "step" not in record
    return DumpTypes(types.columns, lacks_step, [])


def types_of_dump(files: Sequence[DumpFile], workers: int, on_progress: OnProgress) -> DumpTypes:
    """Read all files, in several processes if they are large, and return the types of their columns."""
    columns: _Columns = {}
    lacks_step = False
    unreadable: list[tuple[DumpFile, int]] = []
    for part in for_files(_types_of_files, files, workers, on_progress):
        _merge_types(columns, part.columns)
        lacks_step = lacks_step or part.lacks_step
        unreadable += part.unreadable
    return DumpTypes(columns, lacks_step, unreadable)
