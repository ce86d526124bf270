"""Follow a dump while a training writes it: yield each record as soon as its line is complete.

Our files appear complete. Other writers fill a file under its final name; of such a file the lines that end in a line
feed are read, and the rest is read at a later poll. A file that was replaced or truncated is read from its start.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from verl_rollout_dump.reader.errors import DumpReadError
from verl_rollout_dump.reader.files import DumpFile, files_if_any
from verl_rollout_dump.reader.index import step_of_record
from verl_rollout_dump.reader.lines import read_lines
from verl_rollout_dump.reader.parsing import record_of
from verl_rollout_dump.reader.rows import Row
from verl_rollout_dump.reader.streams import open_stream, skip
from verl_rollout_dump.storage.step_files import STEP_SUFFIX


@dataclass
class _Position:
    """How far a file has been read. `offset` and `size` are in bytes, `changed` in ns."""

    inode: int
    offset: int = 0
    line: int = 0
    records: int = 0
    size: int = 0
    changed: int = 0


class Follower:
    """Returns the new records of a dump at each `poll()`."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path).expanduser()
        self._positions: dict[Path, _Position] = {}

    def skip_existing(self) -> None:
        """Skip the records that exist now."""
        for _ in self.poll():
            pass

    def poll(self) -> Iterator[Row]:
        """Yield the records added since the last poll. A folder that does not exist yet has none."""
        for file in files_if_any(self._path):
            try:
                status = os.stat(file.path)
            except FileNotFoundError:  # superseded between the listing and now
                continue
            position = self._positions.get(file.path)
            if position is None or position.inode != status.st_ino or status.st_size < position.size:
                position = self._positions[file.path] = _Position(status.st_ino)
            if (status.st_size, status.st_mtime_ns) != (position.size, position.changed):
                yield from _read_new(file, position)
                position.size, position.changed = status.st_size, status.st_mtime_ns


def _read_new(file: DumpFile, position: _Position) -> Iterator[Row]:
    """Yield the records after a position, and advance it."""
    try:
        with open_stream(file.path) as stream:
            skip(stream, position.offset) if file.path.suffix != STEP_SUFFIX else stream.seek(position.offset)
            for line in read_lines(stream):
                record = record_of(line)
                if not line.is_ended and not isinstance(record, dict):
                    return
                position.offset += line.length + line.is_ended
                position.line += line.is_ended
                if isinstance(record, dict):
                    index, position.records = position.records, position.records + 1
                    yield Row(step_of_record(record, file), index, file.path, position.line, record)
    except DumpReadError:  # removed meanwhile, or compressed and not complete yet: the next poll looks again
        return


def follow(path: str | Path, seconds: float = 1.0) -> Iterator[Row]:
    """Yield the records of a dump, existing and future ones, without end; polls every `seconds`."""
    follower = Follower(path)
    while True:
        yield from follower.poll()
        time.sleep(seconds)
