"""Stream the records of files, each with its position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from verl_rollout_dump.reader.errors import DumpReadError, FileGoneError
from verl_rollout_dump.reader.files import DumpFile
from verl_rollout_dump.reader.index import step_of_record
from verl_rollout_dump.reader.lines import Line, read_lines
from verl_rollout_dump.reader.parsing import Record, excerpt, record_of
from verl_rollout_dump.reader.streams import open_stream


@dataclass(slots=True)
class Row:
    """A record with its position. `index` counts the readable records of the step from 0, `line` lines from 1.

    The record is as stored: markers are not decoded.
    """

    step: int
    index: int
    path: Path
    line: int
    record: Record
    size: int = 0  # bytes of the line


_OnUnreadable = Callable[[DumpFile, int], None]  # called with a file and the number of a line that is not a record


def _ignore_unreadable(file: DumpFile, line: int) -> None:
    """Do nothing: the default `on_unreadable`."""


def read_rows(
    files: Sequence[DumpFile],
    steps: Collection[int] | None = None,
    on_unreadable: _OnUnreadable = _ignore_unreadable,
) -> Iterator[Row]:
    """Yield the readable records of files, of some steps or all.

    Lines that are not records are skipped, and so is the rest of a file that cannot be read to its end;
    `on_unreadable` is called for each. A file that was removed since it was listed has no records.
    """
    counts: Counter[int] = Counter()
    for file in files:
        if steps is not None and file.step is not None and file.step not in steps:
            continue
        for line, record in _records_of(file, on_unreadable):
            step = step_of_record(record, file)
            if steps is None or step in steps:
                yield Row(step, counts[step], file.path, line.number, record, line.length)
            counts[step] += 1


def _records_of(file: DumpFile, on_unreadable: _OnUnreadable) -> Iterator[tuple[Line, Record]]:
    number = 0
    try:
        with open_stream(file.path) as stream:
            for line in read_lines(stream):
                number = line.number
                record = record_of(line)
                if isinstance(record, dict):
                    yield line, record
                elif record is not None:
                    on_unreadable(file, number)
    except FileGoneError:  # `Dump.removed_files` names it
        return
    except (DumpReadError, OSError):
        on_unreadable(file, number + 1)


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of one file. Raises `DumpReadError` for a line that is not a record."""
    with open_stream(path) as stream:
        for line in read_lines(stream):
            record = record_of(line)
            if not isinstance(record, dict):
                found = excerpt(line.data)
                raise DumpReadError(f"{path}, line {line.number}: expected one JSON object, found {found}")
            yield record
