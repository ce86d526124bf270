"""The index of a file: the position, step, score and group of each record, 48 bytes per record.

With it one record of a large dump is read with one seek, and scores are listed without reading any text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from verl_rollout_dump.reader.errors import UNREADABLE, DumpReadError, FileGoneError, Problem
from verl_rollout_dump.reader.field_names import ABSENT, DEFAULT_FIELDS, FieldNames, text_of_value
from verl_rollout_dump.reader.files import DumpFile
from verl_rollout_dump.reader.lines import LONGEST_LINE, Line, read_lines
from verl_rollout_dump.reader.parsing import Record, excerpt, record_of
from verl_rollout_dump.reader.streams import open_stream

# name -> dtype of each column; offsets and lengths are bytes of the uncompressed file.
COLUMNS: dict[str, type[np.generic]] = {
    "offset": np.uint64,
    "length": np.uint64,
    "step": np.int64,
    "score": np.float64,  # NaN: not a number
    "uid_group": np.uint64,  # a hash; 0: no uid
    "prompt_group": np.uint64,  # a hash; 0: no field is a prompt
}
NO_STEP = -1
_LARGEST_STEP = 2**62
_PROBLEMS_KEPT = 100  # per file; all are counted


@dataclass(frozen=True)
class FileIndex:
    """The index of one file: columns of equal length (see `COLUMNS`), one value per record."""

    columns: dict[str, NDArray[np.generic]]
    problems: list[Problem] = field(default_factory=list)
    problem_count: int = 0

    def __len__(self) -> int:
        return len(self.columns["offset"])

    @property
    def steps(self) -> list[int]:
        """The steps that the file holds, ascending."""
        return [int(step) for step in np.unique(self.columns["step"])]

    def rows_of(self, step: int) -> NDArray[np.intp]:
        """Return the positions of the records of a step in the columns."""
        return np.flatnonzero(self.columns["step"] == step)


class _IndexRows:
    """Builds an index record by record."""

    def __init__(self, fields: FieldNames = DEFAULT_FIELDS) -> None:
        self._fields = fields
        self._values: dict[str, list[float]] = {name: [] for name in COLUMNS}
        self.problems: list[Problem] = []
        self.problem_count = 0

    def add(self, line: Line, record: Record, step: int) -> None:
        """Add a record."""
        score = self._fields.score_of(record)
        uid = self._fields.group_of(record)
        prompt = self._fields.find(record, "prompt")
        values = (
            line.offset,
            line.length,
            step,
            math.nan if score is None else score,
            0 if uid is None else _short_hash(uid),
            0 if prompt is ABSENT else _short_hash(text_of_value(prompt)),
        )
        for column, value in zip(self._values.values(), values, strict=True):
            column.append(value)

    def add_problem(self, problem: Problem) -> None:
        """Count a line that is not a record, and keep it if it is one of the first."""
        self.problem_count += 1
        if len(self.problems) < _PROBLEMS_KEPT:
            self.problems.append(problem)

    def finish(self) -> FileIndex:
        """Return the index."""
        columns = {name: np.array(values, dtype=COLUMNS[name]) for name, values in self._values.items()}
        return FileIndex(columns, self.problems, self.problem_count)


def _short_hash(text: str) -> int:
    """Return a 64-bit hash of a text, the same in every process."""
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def step_of_record(record: Record, file: DumpFile) -> int:
    """Return the step of a record: that of its file, else its `step` field, else `NO_STEP`."""
    if file.step is not None:
        return file.step
    own = record.get("step")
    if isinstance(own, str) and own.isdecimal():  # TRL writes the step as text
        own = float(own)
    if not isinstance(own, (int, float)) or not 0 <= own < _LARGEST_STEP:  # also false for NaN
        return NO_STEP
    return int(own)


def index_file(file: DumpFile, longest_line: int = LONGEST_LINE, fields: FieldNames = DEFAULT_FIELDS) -> FileIndex:
    """Read a whole file and return its index. Raises `DumpReadError` if it cannot be opened."""
    rows = _IndexRows(fields)
    line = Line(0, 0, -1, b"", True)
    with open_stream(file.path) as stream:
        try:
            for line in read_lines(stream, longest_line):
                record = record_of(line)
                if isinstance(record, dict):
                    rows.add(line, record, step_of_record(record, file))
                elif record is not None:
                    rows.add_problem(Problem(file.path, line.number, line.offset, record, excerpt(line.data)))
        except (DumpReadError, OSError) as error:  # broken compression or a failing disk: keep what was read
            end = line.offset + line.length + 1
            rows.add_problem(Problem(file.path, line.number + 1, end, UNREADABLE, str(error)))
    return rows.finish()


def index_files(files: list[DumpFile], fields: FieldNames = DEFAULT_FIELDS) -> list[FileIndex]:
    """Index several files; one that cannot be opened gives an empty index with a problem."""
    return [_index_or_problem(file, fields) for file in files]


def _index_or_problem(file: DumpFile, fields: FieldNames) -> FileIndex:
    """Index a file; if it cannot be opened, return an empty index with a problem.

    A file that was removed is a problem too, but no unreadable line: `Dump.removed_files` names it.
    """
    try:
        return index_file(file, fields=fields)
    except DumpReadError as error:
        problem = Problem(file.path, 0, 0, UNREADABLE, str(error))
        return FileIndex(_IndexRows().finish().columns, [problem], 0 if isinstance(error, FileGoneError) else 1)
