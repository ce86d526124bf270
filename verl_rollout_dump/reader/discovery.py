"""Find the dumps under a folder: a dump itself, or the jobs of a multirun."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from verl_rollout_dump.reader.errors import DumpReadError
from verl_rollout_dump.reader.files import step_folders, step_of_folder
from verl_rollout_dump.storage.step_files import (
    READABLE_SUFFIXES,
    RUN_RECORD,
    SHARDS_FOLDER,
    SUPERSEDED_FOLDER,
    shard_folders,
)

_DEEPEST = 6
_IGNORED_FOLDERS = (SUPERSEDED_FOLDER, SHARDS_FOLDER, "node_modules", "__pycache__")
_OVERRIDES = Path(".hydra") / "overrides.yaml"


def _is_dump(folder: Path) -> bool:
    """Return whether a folder holds step files, folders of steps with files, or one of our `run.json` files."""
    names = [entry.name for entry in os.scandir(folder) if entry.is_file()]
    if RUN_RECORD in names or any(name.endswith(READABLE_SUFFIXES) for name in names):
        return True
    return bool(shard_folders(folder) or step_folders(folder))


def find_dumps(root: Path) -> list[Path]:
    """Return the dumps in a folder and below it, sorted by path. Raises `DumpReadError` if there are none."""
    if not root.is_dir():
        raise DumpReadError(f"{root} is not a directory")
    found = sorted(_dumps_under(root, 0))
    if not found:
        raise DumpReadError(f"{root}: no dump was found in this folder or in the {_DEEPEST} levels of folders below it")
    return found


def _dumps_under(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the dumps in a folder and below it, down to `_DEEPEST` levels."""
    if _is_dump(folder):
        yield folder
    if depth == _DEEPEST:
        return
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False) and not _is_ignored(entry.name):
            yield from _dumps_under(Path(entry.path), depth + 1)


def _is_ignored(name: str) -> bool:
    """Return whether a folder holds no dump of its own: hidden, known, or the folder of a step."""
    return name.startswith(".") or name in _IGNORED_FOLDERS or step_of_folder(name) is not None


def overrides_of(dump: Path, root: Path) -> list[str]:
    """Return the Hydra overrides of the job that wrote a dump, from its `.hydra/overrides.yaml`; [] without one."""
    from omegaconf import OmegaConf

    for folder in (dump, *dump.parents):
        file = folder / _OVERRIDES
        if file.is_file():
            return [str(override) for override in OmegaConf.load(file)]
        if folder == root:
            break
    return []


def differing(overrides: list[list[str]]) -> list[list[str]]:
    """Return, for each job, the overrides that the jobs do not share."""
    shared = set(overrides[0]).intersection(*overrides[1:]) if overrides else set()
    return [[override for override in job if override not in shared] for job in overrides]
