"""SQL over a dump, by DuckDB: the table `rollouts`, one row per record.

DuckDB guesses nothing: the columns and their types come from our own reading of all records (see `reader.arrow`), and
only the columns that a query reads are loaded. A record that lacks `step` gets that of its file. DuckDB's names ignore
case, so a column whose name differs from another only in case gets a number: `Score_2`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from verl_rollout_dump.analysis.selection import with_step
from verl_rollout_dump.reader import Dump, DumpReadError
from verl_rollout_dump.reader.arrow import ArrowSchema, SchemaPlanner, column_array, record_batches
from verl_rollout_dump.reader.optional_imports import require
from verl_rollout_dump.reader.parallel import OnProgress, ignore_progress
from verl_rollout_dump.reader.value_types import ValueType

_TABLE = "rollouts"
_LOADED = "loaded_rollouts"
_NAMELESS = "(empty name)"


class _QueryResult(NamedTuple):
    """The names of the columns of an answer, a DuckDB cursor to fetch its rows from, and notes on columns read."""

    names: list[str]
    cursor: Any
    notes: list[str]


class QuerySchemaPlanner(SchemaPlanner):
    """Plans columns for DuckDB, whose structs need names that differ in more than case."""

    def has_usable_names(self, names: list[str]) -> bool:
        """Return whether names are not empty and differ without regard to case."""
        return bool(names) and all(names) and len({name.casefold() for name in names}) == len(names)


def run_query(dump: Dump, sql: str, workers: int = 1, on_progress: OnProgress = ignore_progress) -> _QueryResult:
    """Run a query on the records of a dump. Raises `MissingPackageError`, `DumpReadError`.

    The dump is read twice: in `workers` processes for the types, then for the columns that the query reads.
    """
    duckdb = require("duckdb", "query")
    require("pyarrow", "query")
    schema = QuerySchemaPlanner().plan(query_columns(dump, workers, on_progress))
    connection = duckdb.connect(":memory:")
    try:
        connection.execute(f"set temp_directory={_literal(_spill_folder())}")
        read = _columns_read(connection, schema, sql)
        _load(connection, dump, schema, read)
        cursor = connection.execute(sql)
    except duckdb.Error as error:
        raise DumpReadError(f"query: {error}") from error
    return _QueryResult([column[0] for column in cursor.description or []], cursor, _notes_on(schema, read))


def query_columns(dump: Dump, workers: int = 1, on_progress: OnProgress = ignore_progress) -> dict[str, ValueType]:
    """Return the types of the columns of `rollouts`, read from all records."""
    types = dump.types(workers, on_progress)
    columns = dict(types.columns)
    if types.lacks_step or not columns:
        step = columns.setdefault("step", ValueType())
        for number in dump.steps:
            step.add(number)
    return columns


def column_names(fields: Iterable[str]) -> list[str]:
    """Return the names of the columns of fields: their own, with a number if DuckDB would take two for the same."""
    names: list[str] = []
    taken: set[str] = set()
    for name in fields:
        unique, number = name or _NAMELESS, 1
        while unique.casefold() in taken:
            number += 1
            unique = f"{name or _NAMELESS}_{number}"
        taken.add(unique.casefold())
        names.append(unique)
    return names


def _notes_on(schema: ArrowSchema, read: set[str]) -> list[str]:
    """Return what a user must know of the columns that a query reads: other names, and values as JSON text."""
    names = zip(schema.columns, column_names(schema.columns), strict=True)
    renamed = [f"the field {name!r} is the column {column!r}" for name, column in names if column != name]
    parts = [path for path in schema.as_text if any(f"{path}.".startswith((f"{name}.", f"{name}[")) for name in read)]
    return renamed + [f"{path} is JSON text, since its values have several types" for path in parts]


def _columns_read(connection: Any, schema: ArrowSchema, sql: str) -> set[str]:
    """Return the fields that a query reads, by DuckDB's own plan for it; all fields if the plan does not list them."""
    pyarrow = require("pyarrow", "query")
    positions = _positions(schema)
    row = pyarrow.RecordBatch.from_arrays(
        [pyarrow.nulls(1, plan.type) for plan in schema.columns.values()], names=list(positions)
    )
    connection.register(_LOADED, pyarrow.Table.from_batches([row]))
    _create_view(connection, schema)
    try:
        plan = orjson.loads(connection.execute(f"explain (format json) {sql}").fetchall()[0][1])
        read = {positions[name.partition(".")[0]] for scan in _scans(plan) for name in _projections(scan)}
    except (
        require("duckdb", "query").Error,
        IndexError,
        KeyError,
        ValueError,
    ):  # running the query raises its own error
        return set(schema.columns)
    finally:
        connection.execute(f"drop view if exists {_TABLE}")
        connection.unregister(_LOADED)
    return read


def _positions(schema: ArrowSchema) -> dict[str, str]:
    """Return column of the loaded table -> field. The columns are numbered, since fields may have any name."""
    return {f"c{number}": name for number, name in enumerate(schema.columns)}


def _create_view(connection: Any, schema: ArrowSchema) -> None:
    names = zip(_positions(schema), column_names(schema.columns), strict=True)
    columns = ", ".join(f'{column} as "{name.replace(chr(34), chr(34) * 2)}"' for column, name in names)
    connection.execute(f"create view {_TABLE} as select {columns} from {_LOADED}")


def _scans(plan: Any) -> Iterator[dict[str, Any]]:
    """Yield the scans of the loaded table in a plan."""
    for node in plan if isinstance(plan, list) else [plan]:
        if "ARROW_SCAN" in node.get("name", ""):
            yield node
        yield from _scans(node.get("children", []))


def _projections(scan: dict[str, Any]) -> list[str]:
    """Return the columns that a scan reads. Raises KeyError if the plan does not list them."""
    read = scan["extra_info"]["Projections"]
    return [read] if isinstance(read, str) else read


def _load(connection: Any, dump: Dump, schema: ArrowSchema, read: set[str]) -> None:
    """Load the fields in `read` as the table `rollouts`; the other columns, which the query does not read, are null."""
    pyarrow = require("pyarrow", "query")
    types = pyarrow.schema([(column, schema.columns[name].type) for column, name in _positions(schema).items()])

    def batches() -> Iterator[Any]:
        for records in record_batches(replace(row, record=with_step(row)) for row in dump.rows()):
            arrays = [
                column_array(records, name, plan) if name in read else pyarrow.nulls(len(records), plan.type)
                for name, plan in schema.columns.items()
            ]
            yield pyarrow.RecordBatch.from_arrays(arrays, schema=types)

    reader = pyarrow.RecordBatchReader.from_batches(types, batches())
    connection.register("stream", reader)
    connection.execute(f"create table {_LOADED} as select * from stream")
    connection.unregister("stream")
    _create_view(connection, schema)


def _spill_folder() -> str:
    return str(Path(tempfile.gettempdir()) / f"verl_rollout_dump_query_{os.getpid()}")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
