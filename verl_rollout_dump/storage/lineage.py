"""The lineage of a dump: of each step the one file that counts, after all resumes.

    lineage(DIR)          step -> file, in rising order: what a reader reads by default
    lineage_parts(DIR)    step -> files: the same where many writers share a dump (DIR/shards/, see shards.py)
    superseded_files(DIR) the files in DIR that are no part of it: steps that a killed attempt had reached beyond
                          the step at which a later attempt went on

The rule is in attempts.py; what it needs is in `run.json`. A directory without `run.json`, and files of other programs
that no attempt replaced, count as they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verl_rollout_dump.storage.attempts import NOBODY, Attempt, counts, writer_of
from verl_rollout_dump.storage.run_record import read_content
from verl_rollout_dump.storage.step_files import files_by_step, shard_folders


@dataclass
class FolderHistory:
    """Which attempts wrote into a folder, and the template of its file names (None: not known)."""

    folder: Path
    attempts: list[Attempt]
    template: str | None

    def files(self) -> dict[int, Path]:
        """Return the last file of each step, whether it counts or not."""
        return {step: latest(paths) for step, paths in files_by_step(self.folder, self.template).items()}


def lineage(directory: Path) -> dict[int, Path]:
    """Return the file of each step that counts, in rising order of steps. Raises OSError.

    Raises ValueError where a step has several files, one of each writer: see `lineage_parts`.
    """
    parts = lineage_parts(directory)
    several = next((step for step, files in parts.items() if len(files) > 1), None)
    if several is not None:
        raise ValueError(f"{directory} was written by many writers (step {several} has {len(parts[several])} files)")
    return {step: files[0] for step, files in parts.items()}


def lineage_parts(directory: Path) -> dict[int, tuple[Path, ...]]:
    """Return the files of each step that count, in the order of their writers. Raises OSError."""
    histories = [history_of(folder) for folder in (directory, *shard_folders(directory))]
    found: dict[int, list[Path]] = {}
    for history in histories:
        for step, path in history.files().items():
            if is_current(history, step, histories):
                found.setdefault(step, []).append(path)
    return {step: tuple(paths) for step, paths in sorted(found.items())}


def superseded_files(directory: Path) -> set[Path]:
    """Return the step files that are in a directory and do not count. Raises OSError."""
    kept = {path for paths in lineage_parts(directory).values() for path in paths}
    folders = [history_of(folder) for folder in (directory, *shard_folders(directory))]
    return {
        path
        for history in folders
        for paths in files_by_step(history.folder, history.template).values()
        for path in paths
        if path not in kept
    }


def missing_parts(directory: Path) -> dict[int, int]:
    """Return for each step that lacks files of some writers how many it lacks. Raises OSError."""
    lacking = {}
    for step, paths in lineage_parts(directory).items():
        wanted = max((writers_of(path.parent.name) for path in paths), default=1)
        if len(paths) < wanted:
            lacking[step] = wanted - len(paths)
    return lacking


def writers_of(folder_name: str) -> int:
    """Return how many writers a shard's folder name speaks of; 1 for other names."""
    _, of, count = folder_name.partition("-of-")
    return int(count) if of and count.isdigit() else 1


def is_current(history: FolderHistory, step: int, histories: Sequence[FolderHistory]) -> bool:
    """Whether a folder's file of a step counts: no later attempt began at the step or before, in it or beside it.

    Shards of one run begin together; what tells a later run with another number of writers is when it started.
    """
    writer = writer_of(history.attempts, step)
    if not counts(history.attempts, step, writer):
        return False
    started = next((attempt.started for attempt in history.attempts if attempt.attempt == writer), "")
    others = [other for other in histories if writers_of(other.folder.name) != writers_of(history.folder.name)]
    return not any(
        attempt.begins <= step and attempt.started > started for other in others for attempt in other.attempts
    )


def latest(paths: Sequence[Path]) -> Path:
    """Return the file that was written last, of those that one step has."""
    return max(paths, key=lambda path: path.lstat().st_mtime_ns)


def history_of(folder: Path) -> FolderHistory:
    """Read what a folder's `run.json` tells; nothing, where there is none or it cannot be read."""
    content = read_content(folder)
    try:
        record: dict[str, Any] = json.loads(content) if content is not None else {}
        attempts = [Attempt.from_json(entry) for entry in record.get("attempts", ())]
        template = record["rollout_dump"]["path"]["filename"] if attempts else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return FolderHistory(folder, [], None)
    return FolderHistory(folder, attempts, template)


__all__ = ["NOBODY", "lineage", "lineage_parts", "missing_parts", "superseded_files"]
