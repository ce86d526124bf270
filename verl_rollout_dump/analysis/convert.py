"""Write a dump in another format, in bounded memory.

    parquet, arrow (an IPC stream file), csv, jsonl, datasets (a folder for `datasets.load_from_disk`)

Nested values stay nested in Parquet, Arrow and datasets; in CSV they are JSON text. To add a format, add a function
and a row in `FORMATS`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from verl_rollout_dump.reader import Dump, DumpReadError
from verl_rollout_dump.reader.arrow import ArrowSchema, arrow_batches, arrow_schema
from verl_rollout_dump.reader.optional_imports import require
from verl_rollout_dump.storage.atomic_files import replacing
from verl_rollout_dump.storage.step_files import temporary_path


class _Converted(NamedTuple):
    """What was written. `as_text` names the columns and parts of columns (dots, `[]`) written as JSON text."""

    records: int
    as_text: list[str]


def _write_parquet(dump: Dump, target: Path) -> _Converted:
    """Write one Parquet file (zstd). Needs pyarrow."""
    parquet = require("pyarrow.parquet", "writing Parquet")
    schema = arrow_schema(dump)
    with parquet.ParquetWriter(target, schema.schema, compression="zstd") as writer:
        return _write_batches(dump, schema, writer)


def _write_arrow(dump: Dump, target: Path) -> _Converted:
    """Write one Arrow IPC stream file, which `datasets` and `polars` can map. Needs pyarrow."""
    ipc = require("pyarrow.ipc", "writing Arrow")
    schema = arrow_schema(dump)
    with target.open("wb") as file, ipc.new_stream(file, schema.schema) as writer:
        return _write_batches(dump, schema, writer)


def _write_batches(dump: Dump, schema: ArrowSchema, writer: Any) -> _Converted:
    """Write all batches to a pyarrow writer."""
    records = 0
    for batch in arrow_batches(dump, schema):
        writer.write_batch(batch)
        records += batch.num_rows
    return _Converted(records, schema.as_text)


def _write_datasets(dump: Dump, target: Path) -> _Converted:
    """Write a folder for `datasets.load_from_disk`. Needs datasets."""
    datasets = require("datasets", "writing a Dataset")
    schema = arrow_schema(dump)
    data = target / "data-00000-of-00001.arrow"
    target.mkdir(parents=True)
    ipc = require("pyarrow.ipc", "writing a Dataset")
    with data.open("wb") as file, ipc.new_stream(file, schema.schema) as writer:
        converted = _write_batches(dump, schema, writer)
    features = datasets.Features.from_arrow_schema(schema.schema)
    datasets.DatasetInfo(features=features).write_to_directory(str(target))
    state = {
        "_data_files": [{"filename": data.name}],
        "_fingerprint": datasets.fingerprint.generate_random_fingerprint(),
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": "train",
    }
    (target / "state.json").write_bytes(orjson.dumps(state, option=orjson.OPT_INDENT_2))
    return converted


def _write_csv(dump: Dump, target: Path) -> _Converted:
    """Write one CSV file: nested values and markers as JSON text, null as an empty cell."""
    names = list(dict.fromkeys(name for row in dump.rows() for name in row.record))
    records = 0
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for row in dump.rows():
            writer.writerow([_cell(row.record.get(name)) for name in names])
            records += 1
    return _Converted(records, [])


def _cell(value: Any) -> Any:
    """Return the CSV cell of a value."""
    return orjson.dumps(value).decode() if isinstance(value, (dict, list, bool)) else value


def _write_jsonl(dump: Dump, target: Path) -> _Converted:
    """Write one strict JSONL file with all steps; every record has a `step`."""
    records = 0
    with target.open("wb") as file:
        for row in dump.rows():
            file.write(orjson.dumps({"step": row.step, **row.record}) + b"\n")
            records += 1
    return _Converted(records, [])


FORMATS: dict[str, Callable[[Dump, Path], _Converted]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "datasets": _write_datasets,
    "jsonl": _write_jsonl,
    "arrow": _write_arrow,
}


def convert_dump(dump: Dump, target: Path, format_name: str) -> _Converted:
    """Write a dump in a format of `FORMATS`. The target appears when it is complete.

    Raises `DumpReadError` if the target exists or cannot be written, `MissingPackageError` if a package is missing.
    """
    if target.exists():
        raise DumpReadError(f"{target} exists; nothing is overwritten. Choose another name, or move it away")
    if not target.absolute().parent.is_dir():
        raise DumpReadError(f"{target.parent} is not a directory; create it first")
    temporary = temporary_path(target)
    if temporary.exists():
        raise DumpReadError(
            f"{temporary} exists: another conversion is running or was interrupted. Remove the file if none is running"
        )
    with replacing(target, beside=temporary_path):
        return FORMATS[format_name](dump, temporary)
