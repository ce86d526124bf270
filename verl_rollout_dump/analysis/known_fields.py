"""Refuse fields that no record has, before a whole dump is read for them.

The first records of some files show most fields. Another field may still occur in a few records, so the files are
searched for its key as bytes, without parsing, until it is found; only a field that no file has is unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any

from verl_rollout_dump.analysis.where import Condition, WhereError
from verl_rollout_dump.reader import Dump, DumpFile, DumpReadError, read_rows
from verl_rollout_dump.reader.streams import BLOCK, open_stream

_FILES, _RECORDS = 64, 8  # of a dump, of a file
_DEEPEST = 6
_SHOWN = 12
_OPTIONS = {"uid": "group"}  # role -> option, if the names differ


def require_chosen_fields(dump: Dump) -> None:
    """Raise `DumpReadError` if a field chosen by `--score` and the like is in no record of the dump."""
    known: set[str] = set()
    for role, name in dump.fields.chosen.items():
        known = known or _sampled_fields(dump)
        if not _exists(dump, tuple(name.split(".")), known):
            option = _OPTIONS.get(role, role)
            raise DumpReadError(f"--{option} {name}: {_unknown(name, known)}")


def require_fields(dump: Dump, condition: Condition) -> None:
    """Raise `WhereError` if a condition names a field that is in no record of the dump."""
    known: set[str] = set()
    for path, position in condition.fields:
        known = known or _sampled_fields(dump)
        if not _exists(dump, path, known):
            raise WhereError(condition.text, position, _unknown(".".join(path), known))


def _sampled_fields(dump: Dump) -> set[str]:
    """Return the fields of some records, with dots into nested objects, and `step`."""
    files = dump.files
    every = max(1, len(files) // _FILES)
    rows = (row for file in (*files[::every], *files[-1:]) for row in islice(_rows_of(file), _RECORDS))
    return {"step", *(name for row in rows for name in _paths(row.record))}


def _rows_of(file: DumpFile) -> Iterator[Any]:
    try:
        yield from read_rows([file])
    except (DumpReadError, OSError):  # the command itself reports unreadable files
        return


def _paths(record: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[str]:
    for name, value in record.items():
        yield prefix + name
        if isinstance(value, Mapping) and depth < _DEEPEST:
            yield from _paths(value, f"{prefix}{name}.", depth + 1)


def _exists(dump: Dump, path: tuple[str, ...], known: set[str]) -> bool:
    if ".".join(path) in known:
        return True
    pattern = _key_pattern(path[-1])
    return any(_has_key(file, pattern) for file in dump.files)


def _key_pattern(name: str) -> re.Pattern[bytes]:
    spellings = {json.dumps(name, ensure_ascii=ascii_only).encode("utf-8", "replace") for ascii_only in (True, False)}
    return re.compile(b"(?:" + b"|".join(map(re.escape, spellings)) + rb")\s*:")


def _has_key(file: DumpFile, pattern: re.Pattern[bytes]) -> bool:
    overlap = len(pattern.pattern) + 64
    rest = b""
    try:
        with open_stream(file.path) as stream:
            while block := stream.read(BLOCK):
                if pattern.search(rest + block):
                    return True
                rest = block[-overlap:]
    except (DumpReadError, OSError):  # the command itself reports unreadable files
        return False
    return False


def _unknown(name: str, known: set[str]) -> str:
    nearest = get_close_matches(name, known, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else f"fields: {', '.join(sorted(known)[:_SHOWN])}"
    return f"no record has a field {name}; {hint}"
