"""A dump as a table of pyarrow, pandas, polars or datasets; each is imported only when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from verl_rollout_dump.reader.optional_imports import require

if TYPE_CHECKING:
    from verl_rollout_dump.reader.dump import Dump


def to_arrow(dump: Dump) -> Any:
    """Return all records as a `pyarrow.Table`. Raises `MissingPackageError`."""
    from verl_rollout_dump.reader.arrow import arrow_batches, arrow_schema

    pyarrow = require("pyarrow", "a table of Arrow")
    schema = arrow_schema(dump)
    return pyarrow.Table.from_batches(arrow_batches(dump, schema), schema.schema)


def to_pandas(dump: Dump) -> Any:
    """Return all records as a `pandas.DataFrame`, nested values as Python objects. Raises `MissingPackageError`."""
    pandas = require("pandas", "a DataFrame of pandas")
    columns: dict[str, list[Any]] = {}
    for count, record in enumerate(dump.records()):
        for name in record:
            if name not in columns:
                columns[name] = [None] * count
        for name, values in columns.items():
            values.append(record.get(name))
    return pandas.DataFrame(columns)


def to_polars(dump: Dump) -> Any:
    """Return all records as a `polars.DataFrame`. Raises `MissingPackageError`."""
    polars = require("polars", "a DataFrame of polars")
    return polars.DataFrame(to_arrow(dump))


def to_datasets(dump: Dump) -> Any:
    """Return all records as a `datasets.Dataset`, in memory. Raises `MissingPackageError`."""
    datasets = require("datasets", "a Dataset of datasets")
    return datasets.Dataset(datasets.table.InMemoryTable(to_arrow(dump)))
