"""What happens to earlier files of a step, by `path.existing`: the same rules for local and remote directories.

A policy first checks, before anything is written, and at the end gives the complete new file its name. An earlier
file keeps its name until that moment: a new file that cannot be written costs nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from verl_rollout_dump.config.schema import Existing
from verl_rollout_dump.storage.atomic_files import make_folder_within
from verl_rollout_dump.storage.attempts import Attempt, superseded_steps, writer_of
from verl_rollout_dump.storage.step_files import other_names, superseded_files_named, superseded_name, temporary_path

logger = logging.getLogger(__name__)


class StepPlace(Protocol):
    """Where the file of one step goes, in a folder or in a store. The methods raise OSError."""

    # The name that the new file gets.
    name: str

    def exists(self, name: str) -> bool:
        """Return whether a file has a name."""

    def path_of(self, name: str) -> str:
        """Return the full path or URL of a name, for messages."""

    def keep(self, name: str) -> None:
        """Give an earlier file a second name in `superseded/<attempt>/`; its first name is about to be replaced."""

    def move(self, name: str) -> None:
        """Move an earlier file to `superseded/<attempt>/`."""

    def remove(self, name: str) -> None:
        """Remove an earlier file."""

    def put(self) -> None:
        """Give the new file its name; a file that has the name is replaced."""


@dataclass(frozen=True)
class _Policy:
    """A choice of `path.existing`. Both functions raise OSError; `check` raises FileExistsError to refuse the step."""

    check: Callable[[StepPlace], None]
    place: Callable[[StepPlace], None]


def _allow(place: StepPlace) -> None:
    """Earlier files do not keep a step from being written."""


def _refuse(place: StepPlace) -> None:
    """`existing: error`: an earlier file stays, and this step is not written."""
    for name in (place.name, *other_names(place.name)):
        if place.exists(name):
            raise FileExistsError(
                f"{place.path_of(name)} exists and rollout_dump.path.existing=error. Choose another directory, or "
                "existing=supersede, which keeps the older file"
            )


def _place_alone(place: StepPlace) -> None:
    _refuse(place)
    place.put()


def _supersede(place: StepPlace) -> None:
    """`existing: supersede`: earlier files are kept in `superseded/<attempt>/`."""
    for name in _others(place):
        place.move(name)
    if place.exists(place.name):
        place.keep(place.name)
    place.put()


def _overwrite(place: StepPlace) -> None:
    """`existing: overwrite`: earlier files are replaced."""
    place.put()
    for name in _others(place):
        place.remove(name)


def _others(place: StepPlace) -> list[str]:
    """Return the names of earlier files of the step with another compression."""
    return [name for name in other_names(place.name) if place.exists(name)]


POLICIES: dict[Existing, _Policy] = {
    Existing.supersede: _Policy(_allow, _supersede),
    Existing.error: _Policy(_refuse, _place_alone),
    Existing.overwrite: _Policy(_allow, _overwrite),
}


class LocalPlace:
    """The place of a step's file in a folder. `writer` is the attempt that wrote the files that are there now."""

    def __init__(self, target: Path, writer: int) -> None:
        self.name = target.name
        self._folder = target.parent
        self._writer = writer
        self._temporary = temporary_path(target)

    def exists(self, name: str) -> bool:
        """Return whether a file (or a symbolic link) has a name."""
        return os.path.lexists(self._folder / name)

    def path_of(self, name: str) -> str:
        """Return the full path of a name."""
        return str(self._folder / name)

    def keep(self, name: str) -> None:
        """Give a file a second name in `superseded/`; move it if the file system has no hard links."""
        target = self._folder / name
        kept = _free_superseded_path(target, self._writer)
        try:
            os.link(target, kept, follow_symlinks=False)
        except OSError:  # several error numbers mean "no hard links here"; after any other, moving fails as well
            os.replace(target, kept)
        _log_superseded(target, kept)

    def move(self, name: str) -> None:
        """Move a file to `superseded/`."""
        move_to_superseded(self._folder / name, self._writer)

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self._folder / name).unlink()

    def put(self) -> None:
        """Rename the temporary file."""
        os.replace(self._temporary, self._folder / self.name)


def move_to_superseded(target: Path, attempt: int) -> None:
    """Move a file to `superseded/<attempt>/` beside it. Raises OSError."""
    kept = _free_superseded_path(target, attempt)
    os.replace(target, kept)
    _log_superseded(target, kept)


def supersede_leftovers(attempts: Sequence[Attempt], place_of: Callable[[int, int], list[StepPlace]]) -> None:
    """Move the files of superseded steps that no later attempt wrote to `superseded/`. Raises OSError.

    `place_of(step, writer)` returns the places of a step's file, one for each compression.
    """
    for writer, steps in superseded_steps(attempts).items():
        for step in sorted(steps):
            if writer_of(attempts, step) == writer:
                for place in place_of(step, writer):
                    if place.exists(place.name):
                        place.move(place.name)


def superseded_count(folder: Path, targets: list[Path], attempt: int) -> int:
    """Return how many files of an attempt are in `superseded/` under one of the names.

    A second name of a file that still has its first name (a run was killed between the two) does not count.
    """
    kept = [path for target in targets for path in superseded_files_named(folder, attempt, target.name)]
    return sum(not any(os.path.samefile(path, target) for target in targets) for path in kept)


def _log_superseded(target: object, kept: object) -> None:
    logger.warning("%s was there already; it is now %s", target, kept)


def _free_superseded_path(target: Path, attempt: int) -> Path:
    """Return a path in `superseded/<attempt>/` that no file has; makes the folder. Raises OSError."""
    folder = target.parent
    kept = folder / superseded_name(attempt, target.name)
    make_folder_within(make_folder_within(folder, kept.parent.parent.name), kept.parent.name)
    number = 2
    while os.path.lexists(kept):
        kept = folder / superseded_name(attempt, target.name, number)
        number += 1
    return kept
