"""Writes the file of a step, also if an attempt hands over the step in several batches.

A further batch of a step is appended: the file is written again, whole, with the new lines at its end, and replaces the
first one. So a step has one file under every reader, and nothing is lost. (Both gzip and zstd files may be joined.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from verl_rollout_dump.config.schema import WriterConfig
from verl_rollout_dump.storage.atomic_files import DurableSync, Placement, Sync, rename_over, write_file
from verl_rollout_dump.storage.compression import CODECS, Pieces

_BLOCK = 1 << 22  # bytes


class StepWriter:
    """Writes the step files of one attempt."""

    def __init__(self, config: WriterConfig) -> None:
        self.sync = DurableSync() if config.fsync else Sync()
        self._codec = CODECS[config.compression]
        # The size of each file that this attempt has written: what a failed append left behind it does not count.
        self._sizes: dict[Path, int] = {}

    @property
    def suffix(self) -> str:
        """What the compression adds to a file name."""
        return self._codec.suffix

    def has_written(self, target: Path) -> bool:
        """Return whether this attempt has written a file, which is still there."""
        return target in self._sizes and target.exists()

    def write(self, target: Path, pieces: Iterable[Pieces], place: Placement = rename_over) -> int:
        """Write a file, or append to it if this attempt has written it, and return the bytes that were added.

        `place` gives a new file its name. Raises OSError.
        """
        if not self.has_written(target):
            self._sizes[target] = added = write_file(target, pieces, self._codec(), self.sync, place)
            return added
        earlier = self._sizes[target]
        size = write_file(target, pieces, self._codec(), self.sync, before=_blocks(target, earlier))
        self._sizes[target] = size
        return size - earlier


def _blocks(path: Path, size: int) -> Iterator[Pieces]:
    """Yield the first `size` bytes of a file. Raises OSError."""
    with path.open("rb", buffering=0) as file:
        while size and (block := file.read(min(size, _BLOCK))):
            size -= len(block)
            yield [block]
