"""What one pass over a dump records about each file. Small, since processes send it to each other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from verl_rollout_dump.analysis.stringified import TEXT_FIELDS, is_answer, text_kind
from verl_rollout_dump.reader import DumpFile, DumpReadError, Record
from verl_rollout_dump.reader.errors import TOO_LONG, UNREADABLE
from verl_rollout_dump.reader.field_names import DEFAULT_FIELDS, ROLLOUT_OF_PROMPT, FieldNames
from verl_rollout_dump.reader.index import NO_STEP, step_of_record
from verl_rollout_dump.reader.lines import BOM, Line, read_lines
from verl_rollout_dump.reader.parsing import record_of
from verl_rollout_dump.reader.streams import open_stream
from verl_rollout_dump.serialization.markers import MARKER

_FieldPath = str  # a field, with dots into nested objects and [] for the items of a list
_KIND_NAMES: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "text",
    list: "list",
    dict: "object",
}


_Shape = tuple[tuple[str, ...], tuple[type, ...]]  # the keys of a record, and the types of their values


@dataclass
class _ShapeCount:
    """How many records have a shape, and which of their fields need an inspection of each value."""

    inspected: tuple[str, ...]
    records: int = 0


@dataclass
class FileObservation:
    """What a file holds. Counters count records or values; `first` has the first line of each kind."""

    path: Path
    step: int | None
    records: int = 0
    lines: Counter[str] = field(default_factory=Counter)  # kind of finding -> lines
    first: dict[str, str] = field(default_factory=dict)
    keys: Counter[tuple[str, ...]] = field(default_factory=Counter)
    types: dict[_FieldPath, Counter[str]] = field(default_factory=dict)
    steps: Counter[int] = field(default_factory=Counter)
    shapes: dict[_Shape, _ShapeCount] = field(default_factory=dict)
    doubled_uids: int = 0
    doubled_records: int = 0

    def note(self, kind: str, line: int, found: str = "") -> None:
        """Count a finding about a line; the first one is kept as an example."""
        self.lines[kind] += 1
        self.first.setdefault(kind, f"{self.path.name}, line {line}{': ' if found else ''}{found}")

    def count_type(self, path: _FieldPath, kind: str, count: int = 1) -> None:
        """Count values of a type in a field."""
        counts = self.types.get(path)
        if counts is None:
            counts = self.types[path] = Counter()
        counts[kind] += count

    def count_shape(self, record: Record) -> _ShapeCount:
        """Count a record by its shape: most records share a few shapes, and most fields need nothing else."""
        shape = (tuple(record), tuple(map(type, record.values())))
        counted = self.shapes.get(shape)
        if counted is None:
            fields = (name for name, kind in zip(*shape, strict=True) if _needs_inspection(name, kind))
            counted = self.shapes[shape] = _ShapeCount(tuple(fields))
        counted.records += 1
        return counted

    def add_up_shapes(self) -> None:
        """Turn the counts of shapes into counts of keys and types."""
        for (keys, kinds), counted in self.shapes.items():
            self.keys[keys] += counted.records
            for name, kind in zip(keys, kinds, strict=True):
                if name not in counted.inspected:
                    self.count_type(name, _KIND_NAMES.get(kind, "other"), counted.records)
        self.shapes = {}


def _needs_inspection(name: str, kind: type) -> bool:
    """Return whether each value of a field must be inspected: objects, lists, and texts that may be stringified."""
    return kind in (dict, list) or (kind is str and name not in TEXT_FIELDS)


def observe_files(files: list[DumpFile], fields: FieldNames = DEFAULT_FIELDS) -> list[FileObservation]:
    """Observe several files."""
    return [_observe_file(file, fields) for file in files]


def _observe_file(file: DumpFile, fields: FieldNames = DEFAULT_FIELDS) -> FileObservation:
    """Observe a file to its end, or as far as it can be read."""
    seen = FileObservation(file.path, file.step)
    contents: set[int] = set()
    uids: set[int] = set()
    number = 0
    try:
        with open_stream(file.path) as stream:
            for line in read_lines(stream):
                number = line.number
                record = _observe_line(line, seen)
                if record is None:
                    continue
                _observe_record(record, file, line.number, seen)
                _count_doubled_record(line, seen, contents)
                if fields.has_rollout_uids:
                    _count_doubled_uid(fields.value(record, "uid"), seen, uids)
    except (DumpReadError, OSError) as error:
        seen.note(UNREADABLE, number, str(error))
    seen.add_up_shapes()
    return seen


def _observe_line(line: Line, seen: FileObservation) -> Record | None:
    """Note the faults of a line, and return its record or None."""
    if line.data.endswith(b"\r"):
        seen.note("CRLF", line.number)
    try:
        value = orjson.loads(line.data)
        record: Any = value if isinstance(value, dict) else record_of(line)
    except orjson.JSONDecodeError:
        record = record_of(line)
        if isinstance(record, dict):
            for kind in _why_not_strict(line):
                seen.note(kind, line.number)
    if record is None:
        seen.note("blank line", line.number)
    elif isinstance(record, str):
        found = "" if record == TOO_LONG else ascii(line.data[:60].decode("utf-8", "replace"))
        seen.note(record, line.number, found)
    elif not line.is_ended:
        seen.note("no line feed", line.number)
    return record if isinstance(record, dict) else None


def _why_not_strict(line: Line) -> list[str]:
    """Return why a readable line is not strict JSON."""
    kinds = ["BOM"] if line.data.startswith(BOM) else []
    try:
        text = line.data.removeprefix(BOM).decode("utf-8")
        orjson.loads(text)
    except UnicodeDecodeError:
        return [*kinds, "not UTF-8"]
    except orjson.JSONDecodeError:
        return [*kinds, "NaN" if any(word in text for word in ("NaN", "Infinity")) else "not UTF-8"]
    return kinds


def _observe_record(record: Record, file: DumpFile, line: int, seen: FileObservation) -> None:
    """Note the step and the shape of a record."""
    seen.records += 1
    step = step_of_record(record, file)
    seen.steps[step] += 1
    if step == NO_STEP:
        seen.note("unknown step", line)
    elif record.get("step", step) != step:
        seen.note("wrong step", line, f"step {record['step']}")
    for name in seen.count_shape(record).inspected:
        _observe_value(name, record[name], line, seen)


def _observe_value(path: _FieldPath, value: Any, line: int, seen: FileObservation) -> None:
    """Note the type of a value and of its parts."""
    kind = _KIND_NAMES.get(type(value), "other")
    if kind == "text" and path not in TEXT_FIELDS:
        kind = text_kind(value) or kind
        if is_answer(path) and kind in ("text_number", "text_boolean"):
            kind = "text"
    seen.count_type(path, kind)
    if kind.startswith("text_"):
        seen.first.setdefault(f"{kind} {path}", f"{seen.path.name}, line {line}: {value[:60]!r}")
    elif kind == "object":
        if len(value) == 1 and MARKER in value:
            seen.note("marker", line, f"{path}: {ascii(value[MARKER])[:100]}")
            return
        for name, item in value.items():
            _observe_value(f"{path}.{name}", item, line, seen)
    elif kind == "list" and value and isinstance(value[0], (dict, str)):
        for item in value:
            _observe_value(f"{path}[]", item, line, seen)


def _count_doubled_record(line: Line, seen: FileObservation, contents: set[int]) -> None:
    """Count a record that the file holds already."""
    content = hash(line.data)
    seen.doubled_records += content in contents
    contents.add(content)


def _count_doubled_uid(uid: Any, seen: FileObservation, uids: set[int]) -> None:
    """Count the uid of a rollout that the file holds already."""
    if isinstance(uid, str) and ROLLOUT_OF_PROMPT.search(uid):
        seen.doubled_uids += hash(uid) in uids
        uids.add(hash(uid))
