"""The lineage of a dump: for each step the one file that counts after all resumes.

    lineage(DIR)          step -> file, in ascending order: what a reader reads by default
    lineage_parts(DIR)    step -> files: the same for several writers that share a dump (DIR/shards/)
    superseded_files(DIR) the other step files in DIR: steps that a killed attempt wrote beyond the step at which a
                          later attempt continued

The rule is in attempts.py and uses `run.json`. In a directory without `run.json`, every file counts, and so do files
of other programs that no attempt replaced.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verl_rollout_dump.storage.attempts import Attempt, counts, writer_of
from verl_rollout_dump.storage.run_record import read_content
from verl_rollout_dump.storage.step_files import files_by_step, shard_folders, writers_of


@dataclass
class _FolderHistory:
    """The attempts that wrote into a folder, and the template of its file names (None if unknown)."""

    folder: Path
    attempts: list[Attempt]
    template: str | None

    def files(self) -> dict[int, Path]:
        """Return the newest file of each step, whether it counts or not."""
        return {step: _latest(paths) for step, paths in files_by_step(self.folder, self.template).items()}


def lineage(directory: Path) -> dict[int, Path]:
    """Return the file of each step that counts, in ascending order of steps. Raises OSError.

    Raises ValueError if a step has several files, one of each writer: use `lineage_parts` then.
    """
    parts = lineage_parts(directory)
    several = next((step for step, files in parts.items() if len(files) > 1), None)
    if several is not None:
        count = len(parts[several])
        raise ValueError(f"{directory} has several writers (step {several} has {count} files): use lineage_parts")
    return {step: files[0] for step, files in parts.items()}


def lineage_parts(directory: Path) -> dict[int, tuple[Path, ...]]:
    """Return the files of each step that count, in the order of their writers. Raises OSError."""
    histories = [history_of(folder) for folder in (directory, *shard_folders(directory))]
    found: dict[int, list[Path]] = {}
    for history in histories:
        for step, path in history.files().items():
            if _is_current(history, step, histories):
                found.setdefault(step, []).append(path)
    return {step: tuple(paths) for step, paths in sorted(found.items())}


def superseded_files(directory: Path) -> set[Path]:
    """Return the step files in a directory that do not count. Raises OSError."""
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
    """Return the number of missing files for each step that lacks files of some writers. Raises OSError."""
    lacking = {}
    for step, paths in lineage_parts(directory).items():
        wanted = max((writers_of(path.parent.name) for path in paths), default=1)
        if len(paths) < wanted:
            lacking[step] = wanted - len(paths)
    return lacking


def _is_current(history: _FolderHistory, step: int, histories: Sequence[_FolderHistory]) -> bool:
    """Return whether a folder's file of a step counts: no later attempt began at the step or an earlier one.

    Later attempts with another number of writers are in other folders; they are known by the time they started.
    """
    writer = writer_of(history.attempts, step)
    if not counts(history.attempts, step, writer):
        return False
    started = next((attempt.started for attempt in history.attempts if attempt.attempt == writer), "")
    others = [other for other in histories if writers_of(other.folder.name) != writers_of(history.folder.name)]
    return not any(
        attempt.begins <= step and attempt.started > started for other in others for attempt in other.attempts
    )


def _latest(paths: Sequence[Path]) -> Path:
    """Return the file of a step that was written last."""
    return max(paths, key=lambda path: path.lstat().st_mtime_ns)


def history_of(folder: Path) -> _FolderHistory:
    """Read a folder's `run.json`; a missing or unreadable one gives no attempts and no template."""
    content = read_content(folder)
    try:
        record: dict[str, Any] = json.loads(content) if content is not None else {}
        attempts = [Attempt.from_json(entry) for entry in record.get("attempts", ())]
        template = record["rollout_dump"]["path"]["filename"] if attempts else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return _FolderHistory(folder, [], None)
    return _FolderHistory(folder, attempts, template)
