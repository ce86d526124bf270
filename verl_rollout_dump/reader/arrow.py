"""Records as Arrow batches of one schema: one pass finds the types, a second one makes the batches.

    boolean, text, bytes, list, object     bool, string, binary, list, struct with the fields of all objects
    integers                               int64, uint64 if one needs it
    integers and other numbers             float64, if every integer is exact in it (up to 2**53)
    null throughout                        string: `datasets` and Parquet readers know no null type
    anything else                          JSON text: mixed kinds, integers beyond 64 bits, objects without fields

If only a part of an object or list has mixed kinds, only that part becomes JSON text. `ArrowSchema.as_text` names the
columns and parts that are JSON text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from verl_rollout_dump.reader.exact_json import exact_json
from verl_rollout_dump.reader.optional_imports import require
from verl_rollout_dump.reader.parsing import Record
from verl_rollout_dump.reader.rows import Row
from verl_rollout_dump.reader.value_types import DumpTypes, Kind, ValueType, is_marker
from verl_rollout_dump.serialization import decode_markers

if TYPE_CHECKING:
    import pyarrow

_ROWS_PER_BATCH = 2048
BYTES_PER_BATCH = 8 << 20  # of lines; a single longer line is a batch of its own
_EXACT_IN_FLOAT = 2**53
_Convert = Callable[[Any], Any]


class TableSource(Protocol):
    """The source of a table: rows that can be streamed again, and the types of their columns, such as a `Dump`."""

    def rows(self) -> Iterator[Row]:
        """Stream the records from the first one."""
        ...

    def types(self) -> DumpTypes:
        """Return the types of all columns."""
        ...


class _ColumnPlan:
    """How the values of a column become Arrow: the type, and a function for stored values (None: as they are)."""

    def __init__(self, kind: pyarrow.DataType, convert: _Convert | None = None) -> None:
        self.type = kind
        self.convert = convert


@dataclass
class ArrowSchema:
    """The columns of a table. `as_text` names the columns and parts (dots, `[]`) whose values are JSON text."""

    columns: dict[str, _ColumnPlan] = field(default_factory=dict)
    as_text: list[str] = field(default_factory=list)

    @property
    def schema(self) -> pyarrow.Schema:
        """The Arrow schema."""
        pyarrow = require("pyarrow", "a table of Arrow")
        return pyarrow.schema([(name, plan.type) for name, plan in self.columns.items()])


def arrow_schema(source: TableSource) -> ArrowSchema:
    """Read all records and return the schema of their table. Raises `MissingPackageError`, `DumpReadError`."""
    return SchemaPlanner().plan(source.types().columns)


class SchemaPlanner:
    """Turns the types of columns into Arrow types."""

    def __init__(self) -> None:
        self._arrow = require("pyarrow", "a table of Arrow")
        self._as_text: list[str] = []
        self._rules: dict[frozenset[Kind], Callable[[ValueType, str], _ColumnPlan | None]] = {
            frozenset(): lambda kind, path: _ColumnPlan(self._arrow.string()),
            frozenset((Kind.BOOLEAN,)): lambda kind, path: _ColumnPlan(self._arrow.bool_()),
            frozenset((Kind.TEXT,)): lambda kind, path: _ColumnPlan(self._arrow.string()),
            frozenset((Kind.BYTES,)): lambda kind, path: _ColumnPlan(self._arrow.binary()),
            frozenset((Kind.NUMBER,)): lambda kind, path: _ColumnPlan(self._arrow.float64()),
            frozenset((Kind.INTEGER,)): self._integer,
            frozenset((Kind.INTEGER, Kind.NUMBER)): self._number,
            frozenset((Kind.LIST,)): self._list,
            frozenset((Kind.OBJECT,)): self._object,
        }

    def plan(self, columns: dict[str, ValueType]) -> ArrowSchema:
        """Return the schema of columns."""
        plans = {name: self._column(kind, name) for name, kind in columns.items()}
        return ArrowSchema(plans, sorted(self._as_text))

    def has_usable_names(self, names: list[str]) -> bool:
        """Return whether an object's fields can be the fields of a struct; else the object becomes JSON text."""
        return bool(names)

    def _column(self, kind: ValueType, path: str) -> _ColumnPlan:
        rule = self._rules.get(frozenset(kind.kinds))
        plan = rule(kind, path) if rule else None
        if plan is None:
            self._as_text.append(path)
            return _ColumnPlan(self._arrow.string(), _json_text)
        if kind.has_markers:
            plan.convert = _after_decoding(plan.convert)
        return plan

    def _integer(self, kind: ValueType, path: str) -> _ColumnPlan | None:
        if kind.low >= -(2**63) and kind.high < 2**63:
            return _ColumnPlan(self._arrow.int64())
        return _ColumnPlan(self._arrow.uint64()) if kind.low >= 0 and kind.high < 2**64 else None

    def _number(self, kind: ValueType, path: str) -> _ColumnPlan | None:
        is_exact = max(-kind.low, kind.high) <= _EXACT_IN_FLOAT
        return _ColumnPlan(self._arrow.float64(), _float) if is_exact else None

    def _list(self, kind: ValueType, path: str) -> _ColumnPlan:
        items = self._column(kind.items or ValueType(), f"{path}[]")
        return _ColumnPlan(self._arrow.list_(items.type), items.convert and _for_items(items.convert))

    def _object(self, kind: ValueType, path: str) -> _ColumnPlan | None:
        if kind.has_too_many_fields or not self.has_usable_names(list(kind.fields)):
            return None
        plans = {name: self._column(inner, f"{path}.{name}") for name, inner in kind.fields.items()}
        converts = {name: plan.convert for name, plan in plans.items() if plan.convert is not None}
        struct = self._arrow.struct([(name, plan.type) for name, plan in plans.items()])
        return _ColumnPlan(struct, _for_fields(converts) if converts else None)


def _json_text(value: Any) -> str | None:
    """Return a stored value as JSON text; None for null. NaN and infinities are written as Python writes them."""
    return None if value is None else exact_json(value).decode()


def _float(value: Any) -> float | None:
    return None if value is None else float(value)


def _for_items(convert: _Convert) -> _Convert:
    return lambda value: None if value is None else [convert(item) for item in value]


def _for_fields(converts: dict[str, _Convert]) -> _Convert:
    def convert_fields(value: Any) -> Any:
        if value is None:
            return None
        return {**value, **{name: convert(value[name]) for name, convert in converts.items() if name in value}}

    return convert_fields


def _after_decoding(convert: _Convert | None) -> _Convert:
    def decode(value: Any) -> Any:
        decoded = decode_markers(value) if isinstance(value, dict) and is_marker(value) else value
        return decoded if convert is None else convert(decoded)

    return decode


def arrow_batches(source: TableSource, schema: ArrowSchema) -> Iterator[pyarrow.RecordBatch]:
    """Stream the records as batches of at most `_ROWS_PER_BATCH` rows and about `BYTES_PER_BATCH` bytes of lines."""
    require("pyarrow", "a table of Arrow")
    for records in record_batches(source.rows()):
        yield _arrow_batch(records, schema)


def record_batches(rows: Iterator[Row]) -> Iterator[list[Record]]:
    """Yield the records of rows, some at a time."""
    records: list[Record] = []
    size = 0
    for row in rows:
        records.append(row.record)
        size += row.size
        if len(records) >= _ROWS_PER_BATCH or size >= BYTES_PER_BATCH:
            yield records
            records, size = [], 0
    if records:
        yield records


def _arrow_batch(records: list[Record], schema: ArrowSchema) -> pyarrow.RecordBatch:
    """Return records as one batch."""
    pyarrow = require("pyarrow", "a table of Arrow")
    arrays = [column_array(records, name, plan) for name, plan in schema.columns.items()]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema.schema)


def column_array(records: list[Record], name: str, plan: _ColumnPlan) -> pyarrow.Array:
    """Return the values of a column, null where a record lacks it."""
    pyarrow = require("pyarrow", "a table of Arrow")
    values = [record.get(name) for record in records]
    return pyarrow.array(values if plan.convert is None else map(plan.convert, values), type=plan.type)
