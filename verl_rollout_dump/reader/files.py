"""Which files a dump consists of, and which step each of them holds.

The step of a file is the last number in its name (`7.jsonl`, `completions_00007.parquet`); in a dump of ours `run.json`
states the form of the names. prime-rl has a folder per step instead: `step_7/rollouts.jsonl`. A file without a number
may hold many steps; there the `step` field of each record counts. Files that a resume superseded are excluded.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from verl_rollout_dump.reader.errors import DumpReadError, FileGoneError
from verl_rollout_dump.storage.lineage import history_of, lineage_parts, superseded_files
from verl_rollout_dump.storage.run_record import ROLLOUT_UIDS
from verl_rollout_dump.storage.step_files import READABLE_SUFFIXES, RUN_RECORD, files_by_step, shard_folders

_LAST_NUMBER = re.compile(r"(\d+)[^\d]*\Z")
_STEP_FOLDER = re.compile(r"(?:global_)?step[_-]?(\d+)", re.IGNORECASE)
_LISTINGS = 5
_TRAINED_PREFIXES = ("train", "effective")  # file names in a step's folder, of prime-rl
_EVALUATION_PREFIXES = ("eval", "val")


class DumpFile(NamedTuple):
    """A file of a dump. `step` is None if only the records name their steps."""

    path: Path
    step: int | None


def step_of_name(name: str) -> int | None:
    """Return the step in the name of a file, or None."""
    suffix = next((suffix for suffix in READABLE_SUFFIXES if name.endswith(suffix)), None)
    match = _LAST_NUMBER.search(name.removesuffix(suffix)) if suffix else None
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
    """Return the files of a dump (a directory or one file), sorted by step. Raises `DumpReadError`.

    A training may move files while they are listed; then they are listed again.
    """
    for _ in range(_LISTINGS - 1):
        try:
            return _list_files(path)
        except FileNotFoundError:
            continue
    return _list_files(path)


def _list_files(path: Path) -> list[DumpFile]:
    """Return the files of a dump. Raises `DumpReadError`, and OSError if a file or folder vanished meanwhile."""
    if path.is_file():
        return [DumpFile(path, _step_of_file(path))]
    if not path.is_dir():
        what, kind = ("is not a directory", DumpReadError) if path.exists() else ("does not exist", FileGoneError)
        raise kind(f"{path} {what}: it is not a directory with a dump (the DIR of trainer.rollout_data_dir)")
    files = _own_files(path) if run_records_of(path) else _foreign_files(path)
    return sorted(files, key=_order_of_file)


def files_if_any(path: Path) -> list[DumpFile]:
    """Return the files of a dump; none if it does not exist (any more)."""
    try:
        return dump_files(path)
    except (FileGoneError, FileNotFoundError):
        return []


def _order_of_file(file: DumpFile) -> tuple[bool, int, str]:
    """Return the sort key of a file: its step, files without a step last."""
    return file.step is None, file.step or 0, str(file.path)


def _step_of_file(path: Path) -> int | None:
    """Return the step of a single file: from its name, else from its folder."""
    step = step_of_name(path.name)
    return step_of_folder(path.absolute().parent.name) if step is None else step


def _own_files(directory: Path) -> list[DumpFile]:
    """Return the files of a dump with a `run.json`: for each step those of its last attempt, from all writers.

    `run.json` states the form of their names. Files of other programs beside them count as they are.
    """
    parts = lineage_parts(directory)
    own = [DumpFile(path, step) for step, paths in parts.items() for path in paths]
    excluded = superseded_files(directory) | {file.path for file in own}
    others = (DumpFile(path, step_of_name(path.name)) for path in _data_files(directory) if path not in excluded)
    return [*own, *others]


def superseded_steps(directory: Path) -> set[int]:
    """Return the steps of files that a later attempt superseded and that are still in place."""
    superseded = superseded_files(directory)
    histories = map(history_of, (directory, *shard_folders(directory)))
    by_step = (files_by_step(history.folder, history.template) for history in histories)
    return {step for steps in by_step for step, paths in steps.items() if not superseded.isdisjoint(paths)}


def _foreign_files(directory: Path) -> list[DumpFile]:
    """Return the files of a dump without a `run.json`: those in the directory, else those in its `step_N` folders."""
    step = step_of_folder(directory.absolute().name)
    if step is not None:
        return [DumpFile(path, step) for path in _rollouts_in(directory)]
    files = [DumpFile(path, step_of_name(path.name)) for path in _data_files(directory)]
    return files or [DumpFile(path, step) for folder, step in step_folders(directory) for path in _rollouts_in(folder)]


def _data_files(directory: Path) -> list[Path]:
    return [directory / entry.name for entry in os.scandir(directory) if entry.name.endswith(READABLE_SUFFIXES)]


def step_of_folder(name: str) -> int | None:
    """Return the step of a folder such as `step_12` or `global_step_12`, or None."""
    match = _STEP_FOLDER.fullmatch(name)
    return int(match[1]) if match else None


def step_folders(directory: Path) -> list[tuple[Path, int]]:
    """Return the folders of steps in a directory that hold rollouts (prime-rl's layout), with their steps."""
    found = []
    for entry in os.scandir(directory):
        step = step_of_folder(entry.name)
        if step is not None and entry.is_dir() and _data_files(Path(entry.path)):
            found.append((directory / entry.name, step))
    return found


def _rollouts_in(folder: Path) -> list[Path]:
    """Return the files of a step's folder that hold what the step trained on: not those of an evaluation."""
    files = _data_files(folder)
    for prefix in _TRAINED_PREFIXES:
        if trained := [path for path in files if path.name.startswith(prefix)]:
            return trained
    return [path for path in files if not path.name.startswith(_EVALUATION_PREFIXES)] or files


def run_records_of(directory: Path) -> list[Path]:
    """Return the `run.json` files of a dump: one, or one for each writer."""
    folders = (directory, *shard_folders(directory))
    return [folder / RUN_RECORD for folder in folders if (folder / RUN_RECORD).is_file()]


def read_run_record(directory: Path) -> dict[str, Any] | None:
    """Return the content of `run.json` (of the first writer if there are several), or None if there is none."""
    records = read_run_records(directory)
    return records[0] if records else None


def read_run_records(directory: Path) -> list[dict[str, Any]]:
    """Return the contents of the `run.json` files of all writers. Raises `DumpReadError` if one is not JSON."""
    return [content for path in run_records_of(directory) if isinstance(content := _read_json(path), dict)]


def has_rollout_uids(directory: Path) -> bool:
    """Return whether `run.json` says that the uids name single rollouts (see `ROLLOUT_UIDS`)."""
    try:
        records = read_run_records(directory)
    except DumpReadError:  # `check` reports it
        return False
    return any(record.get("uid_form") == ROLLOUT_UIDS for record in records)


def _read_json(path: Path) -> Any:
    """Return the content of a JSON file. Raises `DumpReadError` if it is not JSON."""
    try:
        return orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise DumpReadError(f"{path} is not JSON: {error}") from error
