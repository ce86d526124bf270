"""`run.pending`: the steps that were handed over in the current attempt, one per line.

A step is in the file as soon as it is handed over, long before its own file is written. If the run is killed, the file
tells which steps are missing. An attempt that ends removes it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from verl_rollout_dump.errors import OnceLogger
from verl_rollout_dump.storage.atomic_files import FILE_MODE, NOFOLLOW
from verl_rollout_dump.storage.step_files import HANDOVER_LOG

logger = logging.getLogger(__name__)


class HandoverLog:
    """The file of an attempt in a folder; opening it empties it and raises OSError if it cannot be made."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / HANDOVER_LOG
        self._log = OnceLogger(logger)
        self._descriptor = self._open()

    def add(self, step: int) -> None:
        """Add a step; a failure is logged once, since the step itself can still be written."""
        try:
            os.write(self._descriptor, b"%d\n" % step)
        except OSError as error:
            self._log.warning("write", f"{self._path} cannot be written: {error}. Free space on the disk")

    def reopen(self, steps: Iterable[int]) -> None:
        """Make the file again after its folder was removed, with these steps. Raises OSError."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = self._open()
        for step in set(steps):
            self.add(step)

    def end(self) -> None:
        """Remove the file; a second call does nothing. Raises OSError."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._path.unlink(missing_ok=True)

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | NOFOLLOW
        return os.open(self._path, flags, FILE_MODE)


def read_handover_log(folder: Path) -> set[int]:
    """Return the steps in a folder's `run.pending`; empty without one. A line that a full disk cut off is ignored."""
    path = folder / HANDOVER_LOG
    try:
        lines = path.read_bytes().split(b"\n") if not path.is_symlink() else []
    except FileNotFoundError:
        return set()
    return {int(line) for line in lines[:-1] if line.isdigit()}
