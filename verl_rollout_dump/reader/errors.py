"""Errors of the reader, and the problems that it records about lines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


class DumpReadError(ValueError):
    """A dump or one of its files cannot be read. The message names the path, the cause and the remedy."""


class FileGoneError(DumpReadError):
    """A dump or a file of it does not exist (any more): it was removed, or a later attempt superseded it."""


class EmptyDumpError(DumpReadError):
    """A directory has no step files yet."""


class NothingFoundError(DumpReadError):
    """The dump is good, and holds nothing of what was asked for."""


class MissingPackageError(ImportError):
    """An optional package is not installed. The message says how to install it."""

    def __init__(self, package: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package}. Install it: pip install {package}   "
            "(or everything that the command can use: pip install 'verl-rollout-dump[tools]')"
        )


# Why a line, or the end of a file, is not a record.
TORN = "torn"
NOT_JSON = "not JSON"
NOT_AN_OBJECT = "not an object"
TOO_LONG = "too long"
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Problem:
    """A line that is not a record. `line` counts from 1; `offset` is in bytes of the uncompressed file."""

    path: Path
    line: int
    offset: int
    kind: str
    found: str

    def __str__(self) -> str:
        return f"{self.path.name}, line {self.line} (byte {self.offset}): {self.kind}: {self.found}"

    def as_json(self) -> dict[str, Any]:
        """Return the problem as JSON values."""
        return {**vars(self), "path": str(self.path)}
