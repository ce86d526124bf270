"""The stored indexes of a dump: in `DIR/reader.index`, else in the user's cache directory, else in memory only.

The file is a NumPy archive with the concatenated columns of all files and a JSON table of the files (name, size,
modification time, records, problems). An entry is valid while its file is unchanged. Indexes of small dumps are not
stored, since building them again is fast.
"""

from __future__ import annotations

import os
import zipfile
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from verl_rollout_dump.reader.errors import Problem
from verl_rollout_dump.reader.field_names import DEFAULT_FIELDS, FieldNames
from verl_rollout_dump.reader.index import COLUMNS, FileIndex
from verl_rollout_dump.storage.atomic_files import make_folder, replacing
from verl_rollout_dump.storage.step_files import INDEX_CACHE, cache_folder

_FORMAT = 2
WORTH_KEEPING = 16 << 20  # bytes of files; indexing less takes under 0.1 s

Key = tuple[str, int, int]


class IndexCache:
    """The indexes of the files of one dump, by name, size and modification time."""

    def __init__(self, dump: Path, fields: FieldNames = DEFAULT_FIELDS) -> None:
        self._dump = dump if dump.is_dir() else dump.parent
        self._prefix = os.path.join(self._dump, "")
        self._fields = repr(fields)
        name = _index_name(fields)
        self._entries: dict[Key, FileIndex] = {}
        self._places = [self._dump / name, _cache_place(self._dump) / name]
        self._unsaved = 0  # bytes of files whose indexes are not stored yet
        for place in self._places:
            self._entries |= _load(place, self._dump, self._fields)

    def key(self, path: Path) -> Key:
        """Return the key of the current content of a file; one of its own for a file that no longer exists."""
        name = os.fspath(path)
        name = name.removeprefix(self._prefix) if name.startswith(self._prefix) else os.path.relpath(path, self._dump)
        try:
            status = os.stat(path)
        except FileNotFoundError:  # moved since the folder was listed
            return name, -1, -1
        return name, status.st_size, status.st_mtime_ns

    def get(self, key: Key) -> FileIndex | None:
        """Return the index that is stored under a key, or None."""
        return self._entries.get(key)

    def put(self, key: Key, index: FileIndex) -> None:
        """Add an index. `key` was taken before the file was read: if the file grew meanwhile, it is read again."""
        self._entries[key] = index
        self._unsaved += max(key[1], 0)

    def save(self) -> Path | None:
        """Write the valid indexes to the first writable place; return it, or None if nothing was written."""
        if self._unsaved < WORTH_KEEPING:
            return None
        entries = {key: index for key, index in dict(self._entries).items() if self._is_current(key)}
        for place in self._places:
            if _write(place, entries, self._fields):
                self._unsaved = 0
                return place
        return None

    def _is_current(self, key: Key) -> bool:
        return key[1] >= 0 and self.key(self._dump / key[0]) == key


def _index_name(fields: FieldNames) -> str:
    """Return the name of the index file: its scores and groups depend on the chosen fields."""
    if not fields.chosen:
        return INDEX_CACHE
    stem, suffix = os.path.splitext(INDEX_CACHE)
    return f"{stem}-{blake2b(repr(fields.chosen).encode(), digest_size=4).hexdigest()}{suffix}"


def _cache_place(dump: Path) -> Path:
    """Return the folder for the index files of a dump whose own folder is not writable."""
    name = blake2b(os.fsencode(dump.absolute()), digest_size=12).hexdigest()
    return cache_folder() / name


def _write(place: Path, entries: dict[Key, FileIndex], fields: str) -> bool:
    """Write the index file atomically; return False if the place is not writable.

    `fields` describes the field names that the index was built with: `_load` accepts no others.
    """
    table = [
        {
            "key": key,
            "records": len(index),
            "problem_count": index.problem_count,
            "problems": [[problem.line, problem.offset, problem.kind, problem.found] for problem in index.problems],
        }
        for key, index in entries.items()
    ]
    header = orjson.dumps({"format": _FORMAT, "fields": fields, "files": table})
    arrays: dict[str, Any] = {
        name: np.concatenate([index.columns[name] for index in entries.values()] or [np.array([], dtype)])
        for name, dtype in COLUMNS.items()
    }
    arrays["header"] = np.frombuffer(header, np.uint8)
    try:
        make_folder(place.parent)
        with replacing(place) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)
    except OSError:  # read-only or full disk: the caller tries the next place
        return False
    return True


def _load(place: Path, dump: Path, fields: str) -> dict[Key, FileIndex]:
    """Read an index file; {} if it is missing, damaged or of another format: it is then built again."""
    try:
        with np.load(place, allow_pickle=False) as archive:
            header = orjson.loads(archive["header"].tobytes())
            columns = {name: archive[name].astype(dtype, copy=False) for name, dtype in COLUMNS.items()}
        is_valid = (header.get("format"), header.get("fields")) == (_FORMAT, fields)
        return _entries_of(header, columns, dump) if is_valid else {}
    except (OSError, ValueError, KeyError, TypeError, EOFError, AttributeError, zipfile.BadZipFile):
        return {}


def _entries_of(header: dict[str, Any], columns: dict[str, Any], dump: Path) -> dict[Key, FileIndex]:
    """Split the concatenated columns into those of each file. Raises ValueError if the lengths do not match."""
    entries: dict[Key, FileIndex] = {}
    start = 0
    for row in header["files"]:
        stop = start + row["records"]
        part = {name: column[start:stop] for name, column in columns.items()}
        name, size, changed = row["key"]
        problems = [Problem(dump / name, *entry) for entry in row["problems"]]
        entries[name, size, changed] = FileIndex(part, problems, row["problem_count"])
        start = stop
    if any(len(column) != start for column in columns.values()):
        raise ValueError("the columns do not have the length that the table of files states")
    return entries
