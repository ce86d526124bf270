"""Which files a dump consists of, and which step each of them holds.

The step of a file is the last number in its name (`7.jsonl`, `completions_00007.parquet`). A file without a number
may hold many steps; there the `step` field of each record counts. Files that a resume superseded are excluded.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from verl_rollout_dump.reader.errors import DumpReadError
from verl_rollout_dump.reader.field_names import ROLLOUT_UIDS
from verl_rollout_dump.storage.lineage import lineage_parts, superseded_files
from verl_rollout_dump.storage.run_record import FILENAME
from verl_rollout_dump.storage.step_files import shard_folders

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
LAST_NUMBER = re.compile(r"(\d+)[^\d]*\Z")


class DumpFile(NamedTuple):
    """A file of a dump. `step` is None if only the records name their steps."""

    path: Path
    step: int | None


def step_of_name(name: str) -> int | None:
    """Return the step in the name of a file, or None."""
    suffix = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)
    match = LAST_NUMBER.search(name.removesuffix(suffix)) if suffix else None
    return int(match[1]) if match else None


def step_files(directory: Path) -> dict[int, Path]:
    """Return the file of each step, in ascending order of steps (10 after 2).

    Raises `DumpReadError` if the path is not a directory or holds no step files.
    """
    found = {file.step: file.path for file in dump_files(directory) if file.step is not None}
    if not found:
        raise DumpReadError(f"{directory} holds no step files (such as 1.jsonl): nothing was dumped there yet")
    return found


def dump_files(path: Path) -> list[DumpFile]:
    """Return the files of a dump (a directory or one file), sorted by step. Raises `DumpReadError`."""
    if path.is_file():
        return [DumpFile(path, step_of_name(path.name))]
    if not path.is_dir():
        what = "does not exist" if not path.exists() else "is not a directory"
        raise DumpReadError(f"{path} {what}: it is not a directory with a dump (the DIR of trainer.rollout_data_dir)")
    files = [DumpFile(entry, step_of_name(entry.name)) for entry in current_files(path)]
    return sorted(files, key=order_of_file)


def order_of_file(file: DumpFile) -> tuple[bool, int, str]:
    """Return the sort key of a file: its step, files without a step last."""
    return file.step is None, file.step or 0, str(file.path)


def current_files(directory: Path) -> list[Path]:
    """Return the files whose records count, unsorted: for each step those of the last attempt, from all writers."""
    entries = {entry for entry in directory.iterdir() if entry.name.endswith(SUFFIXES)}
    if not run_records_of(directory):
        return list(entries)  # written by another program: every file counts
    current = {path for paths in lineage_parts(directory).values() for path in paths}
    return list((entries - superseded_files(directory)) | current)


def run_records_of(directory: Path) -> list[Path]:
    """Return the `run.json` files of a dump: one, or one for each writer."""
    folders = (directory, *shard_folders(directory))
    return [folder / FILENAME for folder in folders if (folder / FILENAME).is_file()]


def read_run_record(directory: Path) -> dict[str, Any] | None:
    """Return the content of `run.json` (of the first writer if there are several), or None if there is none."""
    records = read_run_records(directory)
    return records[0] if records else None


def read_run_records(directory: Path) -> list[dict[str, Any]]:
    """Return the contents of the `run.json` files of all writers. Raises `DumpReadError` if one is not JSON."""
    return [content for path in run_records_of(directory) if isinstance(content := read_json(path), dict)]


def has_rollout_uids(directory: Path) -> bool:
    """Return whether `run.json` says that the uids name single rollouts (see `ROLLOUT_UIDS`)."""
    try:
        records = read_run_records(directory)
    except DumpReadError:  # `check` reports it
        return False
    return any(record.get("uid_form") == ROLLOUT_UIDS for record in records)


def read_json(path: Path) -> Any:
    """Return the content of a JSON file. Raises `DumpReadError` if it is not JSON."""
    try:
        return orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise DumpReadError(f"{path} is not JSON: {error}") from error
