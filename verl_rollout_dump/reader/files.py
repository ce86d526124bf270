"""Which files a dump consists of, and which step each holds.

The step of a file is the last number in its name (`7.jsonl`, `completions_00007.parquet`). A `.jsonl` file without
a number may hold many steps; then each record's own `step` counts. What a resume has superseded is not in the list.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from verl_rollout_dump.reader.errors import DumpReadError
from verl_rollout_dump.storage.lineage import lineage_parts, superseded_files
from verl_rollout_dump.storage.run_record import FILENAME
from verl_rollout_dump.storage.step_files import shard_folders

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
LAST_NUMBER = re.compile(r"(\d+)[^\d]*\Z")


class DumpFile(NamedTuple):
    """A file of a dump. `step` None: each record says its own."""

    path: Path
    step: int | None


def step_of_name(name: str) -> int | None:
    """Return the step that a file's name tells, or None."""
    suffix = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)
    match = LAST_NUMBER.search(name.removesuffix(suffix)) if suffix else None
    return int(match[1]) if match else None


def step_files(directory: Path) -> dict[int, Path]:
    """Return the files of a dump by step, in rising order of steps (10 after 2).

    Raises `DumpReadError` where the directory is none, or holds no step.
    """
    found = {file.step: file.path for file in dump_files(directory) if file.step is not None}
    if not found:
        raise DumpReadError(f"{directory} holds no step files (such as 1.jsonl): nothing was dumped there yet")
    return found


def dump_files(path: Path) -> list[DumpFile]:
    """Return the files of a dump (a directory, or one file), ordered by step. Raises `DumpReadError`."""
    if path.is_file():
        return [DumpFile(path, step_of_name(path.name))]
    if not path.is_dir():
        what = "does not exist" if not path.exists() else "is not a directory"
        raise DumpReadError(f"{path} {what}: it is not a directory with a dump (the DIR of trainer.rollout_data_dir)")
    files = [DumpFile(entry, step_of_name(entry.name)) for entry in current_files(path)]
    return sorted(files, key=order_of_file)


def order_of_file(file: DumpFile) -> tuple[bool, int, str]:
    """Order files by step, those without one last."""
    return file.step is None, file.step or 0, str(file.path)


def current_files(directory: Path) -> list[Path]:
    """Return the files whose records count, in no order: of each step what the last attempt wrote, of all writers."""
    entries = {entry for entry in directory.iterdir() if entry.name.endswith(SUFFIXES)}
    if not run_records_of(directory):
        return list(entries)  # not ours: what is there counts
    current = {path for paths in lineage_parts(directory).values() for path in paths}
    return list((entries - superseded_files(directory)) | current)


def run_records_of(directory: Path) -> list[Path]:
    """Return the `run.json` of a dump: of its one writer, or of each of many."""
    folders = (directory, *shard_folders(directory))
    return [folder / FILENAME for folder in folders if (folder / FILENAME).is_file()]


def read_run_record(directory: Path) -> dict[str, Any] | None:
    """Return the content of `run.json` (of the first writer, where there are many), or None: another program's dump."""
    records = read_run_records(directory)
    return records[0] if records else None


def read_run_records(directory: Path) -> list[dict[str, Any]]:
    """Return the contents of the `run.json` of all writers. Raises `DumpReadError` for one that is not JSON."""
    return [content for path in run_records_of(directory) if isinstance(content := read_json(path), dict)]


def read_json(path: Path) -> Any:
    """Return the content of a JSON file. Raises `DumpReadError`."""
    try:
        return orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise DumpReadError(f"{path} is not JSON: {error}") from error
