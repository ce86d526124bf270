"""`open_dump`: a dump as a lazy sequence of records.

Opening a dump lists its files and reads none of them. Iterating streams; `record(step, index)` seeks. The index of a
file is built when it is first needed and then kept (see `index_cache`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from verl_rollout_dump.reader import frames
from verl_rollout_dump.reader.dump_index import DumpIndex
from verl_rollout_dump.reader.errors import DumpReadError, EmptyDumpError, Problem
from verl_rollout_dump.reader.field_names import DEFAULT_FIELDS, FieldNames
from verl_rollout_dump.reader.files import DumpFile, dump_files, has_rollout_uids, read_run_record
from verl_rollout_dump.reader.index import FileIndex
from verl_rollout_dump.reader.parallel import OnProgress, ignore_progress, size_of
from verl_rollout_dump.reader.parsing import Record, parse_line
from verl_rollout_dump.reader.rows import Row, read_rows
from verl_rollout_dump.reader.streams import read_span
from verl_rollout_dump.reader.value_types import DumpTypes, types_of_dump
from verl_rollout_dump.serialization import decode_markers
from verl_rollout_dump.storage.step_files import INDEX_CACHE


class Place(NamedTuple):
    """The position of a record; `offset` and `length` are bytes of the uncompressed file."""

    path: Path
    offset: int
    length: int


def open_dump(path: str | Path, fields: FieldNames = DEFAULT_FIELDS) -> Dump:
    """Open a dump: a directory or one file. Raises `DumpReadError` if it holds no step files.

    `fields` chooses fields whose names do not say what they are: `FieldNames(score="rewards.total")`.
    """
    return Dump(Path(path).expanduser(), fields)


class Dump:
    """An open dump. A context manager; closing it saves the indexes that were built.

    `(step, index)` identifies a record: `index` counts the readable records of a step from 0. Lines that are not
    records are skipped and listed in `problems`.
    """

    def __init__(self, path: Path, fields: FieldNames = DEFAULT_FIELDS) -> None:
        self.path = path
        self.fields = replace(fields, has_rollout_uids=has_rollout_uids(path))
        self._files: list[DumpFile] = []
        self._index = DumpIndex(path, self.fields)
        self._unreadable: defaultdict[str, dict[Any, int]] = defaultdict(dict)
        self.refresh()
        if not self._files:
            raise EmptyDumpError(f"{path} holds no step files (such as 1.jsonl): nothing was dumped there yet")

    @property
    def is_whole(self) -> bool:
        """Whether all records of the files belong to it, so that the files can be read in place of `rows`."""
        return True

    @property
    def files(self) -> list[DumpFile]:
        """The files, ordered by step."""
        return list(self._files)

    @property
    def size(self) -> int:
        """The size of all files on disk, in bytes."""
        return sum(map(size_of, self._files))

    @property
    def run(self) -> dict[str, Any] | None:
        """The content of `run.json`, or None if there is none. Raises `DumpReadError` if it is not JSON."""
        return read_run_record(self.path)

    @property
    def steps(self) -> list[int]:
        """The steps in ascending order: from the names of the files, else from the records."""
        known = {file.step for file in self._files if file.step is not None}
        for file in self._files:
            if file.step is None:
                known.update(self.index_of(file).steps)
        return sorted(known)

    @property
    def problems(self) -> list[Problem]:
        """The lines that are not records, at most 100 of each file. Builds the index of all files."""
        return [problem for file in self._files for problem in self.index_of(file).problems]

    @property
    def unreadable_lines(self) -> int:
        """How many lines that are not records have been met so far: by reading rows, or by the index."""
        indexed = sum(index.problem_count for index in self._index.used())
        return max(indexed, *(sum(counts.values()) for counts in self._unreadable.values()), 0)

    @property
    def removed_files(self) -> list[Path]:
        """The files that were removed or superseded since they were listed; reading them gives no records."""
        return [file.path for file in self._files if not file.path.exists()]

    def note_unreadable(self, how: str, part: Any, count: int) -> None:
        """Count the unreadable lines of a part of the dump that was read in some way, such as a step by `stats`."""
        self._unreadable[how][part] = count

    def _note_unreadable_row(self, file: DumpFile, line: int) -> None:
        self.note_unreadable("rows", (file.path, line), 1)

    def __len__(self) -> int:
        return sum(len(self.index_of(file)) for file in self._files)

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    def __enter__(self) -> Dump:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Save the indexes that were built, for the next time the dump is opened."""
        self._index.save()

    def refresh(self) -> None:
        """List the folder again. New files become visible; changed files are indexed again when needed."""
        self._files = dump_files(self.path)
        self._index.set_files(self._files)

    def rows(self, steps: Iterable[int] | None = None) -> Iterator[Row]:
        """Stream records (of some steps) with their positions, as stored: markers are not decoded."""
        wanted = None if steps is None else set(steps)
        return read_rows(self._files, wanted, self._note_unreadable_row)

    def records(self, steps: Iterable[int] | None = None) -> Iterator[Record]:
        """Stream records (of some steps) with markers decoded, in bounded memory."""
        return (decode_markers(row.record) for row in self.rows(steps))

    def record(self, step: int, index: int) -> Record:
        """Return one record with markers decoded. Raises `DumpReadError` if it does not exist."""
        record: Record = decode_markers(self.raw_record(step, index))
        return record

    def raw_record(self, step: int, index: int) -> Record:
        """Return one record as stored. Raises `DumpReadError` if it does not exist."""
        place = self.place(step, index)
        line = read_span(*place)
        try:
            value = parse_line(line)
        except ValueError as error:
            value = error
        if not isinstance(value, dict):
            raise DumpReadError(
                f"{place.path} changed while it was read (record {index} of step {step}); try again. "
                f"If the error stays, delete {self.path / INDEX_CACHE}"
            )
        return value

    def place(self, step: int, index: int) -> Place:
        """Return the position of a record. Raises `DumpReadError` if it does not exist."""
        before = 0
        for file, file_index, rows in self._index.parts(step):
            if before <= index < before + len(rows):
                row = rows[index - before]
                offset, length = (int(file_index.columns[name][row]) for name in ("offset", "length"))
                return Place(file.path, offset, length)
            before += len(rows)
        if not before:
            raise DumpReadError(f"{self.path} has no step {step}. Steps: {_shown_steps(self.steps)}")
        raise DumpReadError(f"step {step} has {before} records, so the index is 0 to {before - 1}, not {index}")

    def column(self, step: int, name: str) -> NDArray[Any]:
        """Return a column of the index (see `index.COLUMNS`) for the records of a step."""
        return self._index.column(step, name)

    def columns(self, *names: str) -> dict[str, NDArray[Any]]:
        """Return columns of the index (see `index.COLUMNS`) for all records, in the order of the files.

        `index` is one more column: the index of each record in its step. Builds the index of all files.
        """
        return self._index.columns(*names)

    def scores(self, step: int) -> NDArray[np.float64]:
        """Return the scores of a step, float64; NaN for a record whose score is not a number."""
        return self._index.column(step, "score")

    def groups(self, step: int) -> NDArray[np.uint64]:
        """Return for each record of a step a hash that it shares with the other rollouts of its prompt, 0 without one.

        The hash is of the chosen group field, else of the uid if records share uids, else of the prompt.
        """
        return self._index.groups(step)

    def index_of(self, file: DumpFile) -> FileIndex:
        """Return the index of a file; builds it if needed."""
        return self._index.of(file)

    def has_index(self, file: DumpFile) -> bool:
        """Return whether the index of the current content of a file has been built."""
        return self._index.has(file)

    def make_index(self, workers: int = 1, on_progress: OnProgress = ignore_progress) -> None:
        """Build the missing indexes, in several processes if the files are large.

        `on_progress` is called with the bytes processed since its last call.
        """
        self._index.build_missing(workers, on_progress)

    def types(self, workers: int = 1, on_progress: OnProgress = ignore_progress) -> DumpTypes:
        """Read all records and return the types of their columns; see `value_types`."""
        types = types_of_dump(self._files, workers, on_progress)
        for file, line in types.unreadable:
            self._note_unreadable_row(file, line)
        return types

    def to_arrow(self) -> Any:
        """Return all records as a `pyarrow.Table`; nested values stay nested. Needs pyarrow."""
        return frames.to_arrow(self)

    def to_pandas(self) -> Any:
        """Return all records as a `pandas.DataFrame`. Needs pandas."""
        return frames.to_pandas(self)

    def to_polars(self) -> Any:
        """Return all records as a `polars.DataFrame`. Needs polars and pyarrow."""
        return frames.to_polars(self)

    def to_datasets(self) -> Any:
        """Return all records as a `datasets.Dataset`. Needs datasets."""
        return frames.to_datasets(self)


def _shown_steps(steps: list[int]) -> str:
    """Return steps as ranges for an error message, at most 200 characters."""
    from verl_rollout_dump.storage.steps import format_steps

    text = format_steps(steps)
    return text if len(text) <= 200 else f"{text[:200]}…"
