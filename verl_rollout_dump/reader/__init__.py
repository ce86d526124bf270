"""Read rollout dumps: ours, those of verl's own writer, and other rollouts in JSONL or Parquet.

from verl_rollout_dump.reader import open_dump

with open_dump("outputs/rollouts") as dump:
    dump.steps                      # [1, 2, ...]
    dump.record(step=2, index=3)    # one seek
    for record in dump: ...         # streams; memory does not grow
    dump.to_pandas()

for row in follow("outputs/rollouts"): ...    # while a training writes it
"""

from verl_rollout_dump.reader.dump import Dump, Place, open_dump
from verl_rollout_dump.reader.errors import (
    DumpReadError,
    EmptyDumpError,
    MissingPackageError,
    NothingFoundError,
    Problem,
)
from verl_rollout_dump.reader.field_names import FieldNames
from verl_rollout_dump.reader.files import DumpFile, dump_files, read_run_record, step_files
from verl_rollout_dump.reader.follower import Follower, follow
from verl_rollout_dump.reader.parsing import Record, parse_line
from verl_rollout_dump.reader.rows import Row, read_records, read_rows

__all__ = [
    "Dump",
    "DumpFile",
    "DumpReadError",
    "EmptyDumpError",
    "FieldNames",
    "Follower",
    "MissingPackageError",
    "NothingFoundError",
    "Place",
    "Problem",
    "Record",
    "Row",
    "dump_files",
    "follow",
    "open_dump",
    "parse_line",
    "read_records",
    "read_rows",
    "read_run_record",
    "step_files",
]
