"""Records as Arrow batches of one schema, streaming: one pass finds the types, a second one makes the batches.

Integers and floats in one column become floats, null goes with anything, objects become structs with the keys of all,
lists stay lists. What Arrow has no one type for (a number here and a text there, an empty object, an integer beyond
64 bits, a complex number) becomes JSON text; `ArrowSchema.as_text` names those columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from verl_rollout_dump.reader.optional_imports import require
from verl_rollout_dump.reader.parsing import Record
from verl_rollout_dump.reader.rows import RowSource
from verl_rollout_dump.serialization import decode_markers

if TYPE_CHECKING:
    import pyarrow

ROWS_PER_BATCH = 2048


class ArrowSchema(NamedTuple):
    """The schema of a dump, and the columns whose values are written as JSON text."""

    schema: pyarrow.Schema
    as_text: frozenset[str]


def raw_batches(source: RowSource) -> Iterator[list[Record]]:
    """Yield the records of a dump, some at a time, markers not decoded."""
    records = (row.record for row in source.rows())
    while some := list(islice(records, ROWS_PER_BATCH)):
        yield some


def arrow_schema(source: RowSource) -> ArrowSchema:
    """Read a dump through and find the types of its columns."""
    pyarrow = require("pyarrow", "finding the types of a dump")
    types: dict[str, Any] = {}
    for records in raw_batches(source):
        for name in dict.fromkeys(key for record in records for key in record):
            found = type_of_values(pyarrow, decode_markers([record.get(name) for record in records]))
            types[name] = joined_type(pyarrow, types.get(name, pyarrow.null()), found)
    as_text = frozenset(name for name, kind in types.items() if kind is None)
    # A column that is null throughout is written as text: `datasets` and Parquet readers know no null type.
    fields = [
        (name, pyarrow.string() if kind is None or pyarrow.types.is_null(kind) else kind)
        for name, kind in types.items()
    ]
    return ArrowSchema(pyarrow.schema(fields), as_text)


def type_of_values(pyarrow: Any, values: list[Any]) -> Any:
    """Return the Arrow type of values, or None where there is no one type for them."""
    try:
        kind = pyarrow.array(values).type
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError, OverflowError):
        return numeric_type(pyarrow, values)
    return None if has_empty_struct(pyarrow, kind) else kind


def numeric_type(pyarrow: Any, values: list[Any]) -> Any:
    """Return a float type where all values are numbers (Arrow refuses some mixtures), else None."""
    kinds = {type(value) for value in values if value is not None}
    return pyarrow.float64() if kinds == {int, float} else None


def has_empty_struct(pyarrow: Any, kind: Any) -> bool:
    """Say whether a type holds an object without keys, which Parquet cannot write."""
    if pyarrow.types.is_struct(kind):
        return kind.num_fields == 0 or any(has_empty_struct(pyarrow, field.type) for field in kind)
    return bool(pyarrow.types.is_list(kind)) and has_empty_struct(pyarrow, kind.value_type)


def joined_type(pyarrow: Any, known: Any, found: Any) -> Any:
    """Return the type that holds both, or None where none does."""
    if known is None or found is None:
        return None
    one, other = (pyarrow.schema([("column", kind)]) for kind in (known, found))
    try:
        return pyarrow.unify_schemas([one, other], promote_options="permissive").field(0).type
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        return None


def arrow_batches(source: RowSource, schema: ArrowSchema) -> Iterator[pyarrow.RecordBatch]:
    """Stream a dump as batches of a schema that `arrow_schema` found."""
    pyarrow = require("pyarrow", "a table of Arrow")
    for records in raw_batches(source):
        arrays = [
            pyarrow.array(column_values(records, field.name, schema.as_text), type=field.type)
            for field in schema.schema
        ]
        yield pyarrow.RecordBatch.from_arrays(arrays, schema=schema.schema)


def column_values(records: Iterable[Record], name: str, as_text: frozenset[str]) -> list[Any]:
    """Return the values of a column: decoded, or as JSON text."""
    values = [record.get(name) for record in records]
    if name not in as_text:
        decoded: list[Any] = decode_markers(values)
        return decoded
    return [None if value is None else orjson.dumps(value).decode() for value in values]
