"""SQL over a dump, on its files as they are, by DuckDB: the table `rollouts`.

Its columns are the fields of the records, nested ones as structs, and `step` where the records have none. Lines that
are not JSON are passed over.
"""

from __future__ import annotations

from typing import Any

from verl_rollout_dump.reader import Dump, DumpReadError
from verl_rollout_dump.reader.optional_imports import require

TABLE = "rollouts"
LARGEST_RECORD = 256 << 20  # bytes
STEP_IN_NAME = r"(\d+)[^\d/]*$"


def connect(dump: Dump) -> Any:
    """Return a DuckDB connection with the view `rollouts`. Raises `MissingPackageError`, `DumpReadError`."""
    duckdb = require("duckdb", "query")
    connection = duckdb.connect(":memory:")
    kinds = {file.path.suffix == ".parquet" for file in dump.files}
    if len(kinds) > 1:
        raise DumpReadError(f"{dump.path} holds both Parquet and JSONL files; query reads one kind")
    source = parquet_source(dump) if kinds == {True} else json_source(dump)
    try:
        names = {row[0] for row in connection.execute(f"describe select * from {source}").fetchall()}
        step = "" if "step" in names else f", regexp_extract(filename, '{STEP_IN_NAME}', 1)::bigint as step"
        connection.execute(f"create view {TABLE} as select * exclude (filename){step} from {source}")
    except duckdb.Error as error:
        raise DumpReadError(f"DuckDB cannot read {dump.path}: {error}") from error
    return connection


def json_source(dump: Dump) -> str:
    """Return the table function that reads JSON lines."""
    return (
        f"read_json({file_list(dump)}, format='newline_delimited', union_by_name=true, filename=true, "
        f"ignore_errors=true, maximum_object_size={LARGEST_RECORD}, maximum_sample_files=32)"
    )


def parquet_source(dump: Dump) -> str:
    """Return the table function that reads Parquet."""
    return f"read_parquet({file_list(dump)}, union_by_name=true, filename=true)"


def file_list(dump: Dump) -> str:
    """Return the files as a list of SQL."""
    quoted = ("'" + str(file.path).replace("'", "''") + "'" for file in dump.files)
    return f"[{', '.join(quoted)}]"


def run_query(dump: Dump, sql: str) -> tuple[list[str], Any]:
    """Run a query; return the names of its columns and a cursor to fetch rows from. Raises `DumpReadError`."""
    duckdb = require("duckdb", "query")
    connection = connect(dump)
    try:
        cursor = connection.execute(sql)
    except duckdb.Error as error:
        raise DumpReadError(f"query: {error}") from error
    return [column[0] for column in cursor.description or []], cursor
