"""Find the dumps under a folder: a dump itself, or the jobs of a multirun."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile
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
_LONG_VALUE = 24  # characters
_KEY_PARTS = 2  # that are kept of a key at least, such as optim.lr
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


def short_overrides(overrides: list[list[str]]) -> list[list[str]]:
    """Return the differing overrides of each job with short keys: the last parts that tell one key from the others.

    Values stay whole; of long ones the folders that all jobs share become `…/`.
    """
    pairs = [[override.partition("=")[::2] for override in job] for job in overrides]
    keys = _short_keys({key for job in pairs for key, _ in job})
    values: dict[str, list[str]] = {}
    for job in pairs:
        for key, value in job:
            values.setdefault(key, []).append(value)
    shared = {key: _shared_folders(some) for key, some in values.items()}
    return [[_short_override(keys[key], value, shared[key]) for key, value in job] for job in pairs]


def _short_override(key: str, value: str, shared: str) -> str:
    """Return an override without the beginning of its value that all jobs share; a deletion (`~key`) has no value."""
    return f"{key}={'…/' if shared else ''}{value[len(shared) :]}" if value else key


def _short_keys(keys: set[str]) -> dict[str, str]:
    """Return for each dotted key its shortest end that is the end of no other key."""
    parts = {key: key.split(".") for key in keys}
    ends = Counter(end for some in parts.values() for end in _ends(some))
    return {key: next((end for end in _ends(some) if ends[end] == 1), key) for key, some in parts.items()}


def _ends(parts: list[str]) -> list[str]:
    """Return the ends of a dotted key, shortest first."""
    return [".".join(parts[-count:]) for count in range(min(_KEY_PARTS, len(parts)), len(parts) + 1)]


def _shared_folders(values: list[str]) -> str:
    """Return the folders that several long values begin with; "" if there are none."""
    if len(values) < 2 or max(map(len, values)) <= _LONG_VALUE:
        return ""
    folders = [value.split("/")[:-1] for value in values]
    shared = list(takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False)))
    return "".join(f"{names[0]}/" for names in shared)
