"""What happens to the file of a step that is there already: `path.existing`.

A placement first checks, before anything is written, and at the end gives the complete new file its name. The older
file keeps its own until that very moment: a new one that cannot be written costs nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from verl_rollout_dump.config.schema import Existing
from verl_rollout_dump.storage.atomic_files import make_folder_within
from verl_rollout_dump.storage.step_files import SUFFIXES

logger = logging.getLogger(__name__)

SUPERSEDED = "superseded"


@dataclass(frozen=True)
class Placing:
    """A step's file that is about to get its name."""

    folder: Path
    target: Path
    # The attempt that wrote what is there now.
    writer: int

    def others(self) -> list[Path]:
        """Return files of the same step that another compression left under another name."""
        plain = self.target.name.removesuffix(".gz").removesuffix(".zst")
        names = [self.folder / (plain + suffix) for suffix in SUFFIXES]
        return [path for path in names if path != self.target and os.path.lexists(path)]


@dataclass(frozen=True)
class Placement:
    """A choice of `path.existing`. Both functions raise OSError."""

    check: Callable[[Placing], None]
    place: Callable[[Placing, Path], None]


def anything_goes(placing: Placing) -> None:
    """No file keeps a step from being written."""


def refuse(placing: Placing) -> None:
    """`existing: error`: the older file stays, and this step is not written."""
    there = [path for path in (placing.target, *placing.others()) if os.path.lexists(path)]
    if there:
        raise FileExistsError(
            f"{there[0]} exists and rollout_dump.path.existing=error. Choose another directory, or "
            "existing=supersede, which keeps the older file"
        )


def place_alone(placing: Placing, temporary: Path) -> None:
    """Give a file its name if nothing has it."""
    refuse(placing)
    os.replace(temporary, placing.target)


def supersede(placing: Placing, temporary: Path) -> None:
    """`existing: supersede`: the older file is kept in `superseded/<attempt>/`."""
    for other in placing.others():
        move_aside(placing.folder, other, placing.writer)
    if os.path.lexists(placing.target):
        keep_aside(placing.folder, placing.target, placing.writer)
    os.replace(temporary, placing.target)


def overwrite(placing: Placing, temporary: Path) -> None:
    """`existing: overwrite`: the new file takes the place of the older one."""
    os.replace(temporary, placing.target)
    for other in placing.others():
        other.unlink()


PLACEMENTS: dict[Existing, Placement] = {
    Existing.supersede: Placement(anything_goes, supersede),
    Existing.error: Placement(refuse, place_alone),
    Existing.overwrite: Placement(anything_goes, overwrite),
}


def keep_aside(folder: Path, target: Path, attempt: int) -> None:
    """Give a file a second name in `superseded/<attempt>/`; move it where the file system has no hard links."""
    aside = free_name(folder, target, attempt)
    try:
        os.link(target, aside, follow_symlinks=False)
    except OSError:  # several numbers stand for "no hard links here"; whatever it was, moving says so again
        os.replace(target, aside)
    logger.warning("%s was there already; it is now %s", target, aside)


def move_aside(folder: Path, target: Path, attempt: int) -> None:
    """Move a file to `superseded/<attempt>/`."""
    aside = free_name(folder, target, attempt)
    os.replace(target, aside)
    logger.warning("%s was there already; it is now %s", target, aside)


def free_name(folder: Path, target: Path, attempt: int) -> Path:
    """Return a name in `superseded/<attempt>/` that nothing has; makes the folder."""
    place = make_folder_within(make_folder_within(folder, SUPERSEDED), str(attempt))
    aside = place / target.name
    number = 2
    while os.path.lexists(aside):
        aside = place / f"{target.name}.{number}"
        number += 1
    return aside


def files_kept_aside(folder: Path, targets: list[Path], attempt: int) -> int:
    """Return how many files are in `superseded/` that an attempt wrote under one of the names.

    A second name of the very file that has the first (a run was killed between the two) does not count.
    """
    place = folder / SUPERSEDED / str(attempt)
    kept = [path for target in targets for path in place.glob(f"{target.name}*") if ".tmp" not in path.name]
    return sum(not any(os.path.samefile(path, target) for target in targets) for path in kept)
