"""A dump as a table of pyarrow, pandas, polars or datasets. Each package is imported when its function is called."""

from __future__ import annotations

from typing import Any

from verl_rollout_dump.reader.arrow import TableSource, arrow_batches, arrow_schema
from verl_rollout_dump.reader.optional_imports import require
from verl_rollout_dump.serialization import decode_markers

_EXACT_IN_FLOAT = 2**53


def to_arrow(source: TableSource) -> Any:
    """Return all records as a `pyarrow.Table`. Raises `MissingPackageError`."""
    pyarrow = require("pyarrow", "a table of Arrow")
    schema = arrow_schema(source)
    return pyarrow.Table.from_batches(arrow_batches(source, schema), schema.schema)


def to_pandas(source: TableSource) -> Any:
    """Return all records as a `pandas.DataFrame`, nested values as Python objects. Raises `MissingPackageError`.

    A column of integers with nulls has the dtype `Int64` (`UInt64` if needed), so no integer is rounded.
    """
    pandas = require("pandas", "a DataFrame of pandas")
    columns: dict[str, list[Any]] = {}
    for count, row in enumerate(source.rows()):
        record = decode_markers(row.record)
        for name in record:
            if name not in columns:
                columns[name] = [None] * count
        for name, values in columns.items():
            values.append(record.get(name))
    return pandas.DataFrame({name: _pandas_column(pandas, values) for name, values in columns.items()})


def _pandas_column(pandas: Any, values: list[Any]) -> Any:
    """Return a column without loss: pandas itself would make floats of integers beside nulls or floats."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds == {int} and None in values:
        known = [value for value in values if value is not None]
        if min(known) >= -(2**63) and max(known) < 2**63:
            return pandas.array(values, dtype="Int64")
        is_unsigned = min(known) >= 0 and max(known) < 2**64
        return pandas.array(values, dtype="UInt64") if is_unsigned else pandas.Series(values, dtype=object)
    if kinds == {int, float} and any(type(value) is int and abs(value) > _EXACT_IN_FLOAT for value in values):
        return pandas.Series(values, dtype=object)
    return values


def to_polars(source: TableSource) -> Any:
    """Return all records as a `polars.DataFrame`. Raises `MissingPackageError`."""
    polars = require("polars", "a DataFrame of polars")
    return polars.DataFrame(to_arrow(source))


def to_datasets(source: TableSource) -> Any:
    """Return all records as a `datasets.Dataset`, in memory. Raises `MissingPackageError`."""
    datasets = require("datasets", "a Dataset of datasets")
    return datasets.Dataset(datasets.table.InMemoryTable(to_arrow(source)))
