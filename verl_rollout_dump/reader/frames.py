"""A dump as a table of pyarrow, pandas, polars or datasets. Each package is imported when its function is called."""

from __future__ import annotations

from typing import Any

from verl_rollout_dump.reader.arrow import arrow_batches, arrow_schema
from verl_rollout_dump.reader.optional_imports import require
from verl_rollout_dump.reader.rows import RowSource
from verl_rollout_dump.serialization import decode_markers


def to_arrow(source: RowSource) -> Any:
    """Return all records as a `pyarrow.Table`. Raises `MissingPackageError`."""
    pyarrow = require("pyarrow", "a table of Arrow")
    schema = arrow_schema(source)
    return pyarrow.Table.from_batches(arrow_batches(source, schema), schema.schema)


def to_pandas(source: RowSource) -> Any:
    """Return all records as a `pandas.DataFrame`, nested values as Python objects. Raises `MissingPackageError`."""
    pandas = require("pandas", "a DataFrame of pandas")
    columns: dict[str, list[Any]] = {}
    for count, row in enumerate(source.rows()):
        record = decode_markers(row.record)
        for name in record:
            if name not in columns:
                columns[name] = [None] * count
        for name, values in columns.items():
            values.append(record.get(name))
    return pandas.DataFrame(columns)


def to_polars(source: RowSource) -> Any:
    """Return all records as a `polars.DataFrame`. Raises `MissingPackageError`."""
    polars = require("polars", "a DataFrame of polars")
    return polars.DataFrame(to_arrow(source))


def to_datasets(source: RowSource) -> Any:
    """Return all records as a `datasets.Dataset`, in memory. Raises `MissingPackageError`."""
    datasets = require("datasets", "a Dataset of datasets")
    return datasets.Dataset(datasets.table.InMemoryTable(to_arrow(source)))
