"""What goes wrong while reading, as errors and as entries of a list."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


class DumpReadError(ValueError):
    """A dump, or a file of it, is not what it should be. The message names what was found and the remedy."""


class MissingPackageError(ImportError):
    """A package that one part of the command needs is not installed. The message says how to install it."""

    def __init__(self, package: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package}. Install it: pip install {package}   "
            "(or all that the command can use: pip install 'verl-rollout-dump[tools]')"
        )


# What is wrong with a line (or with the end of a file) that yields no record.
TORN = "torn"
NOT_JSON = "not JSON"
NOT_AN_OBJECT = "not an object"
TOO_LONG = "too long"
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Problem:
    """A line that yields no record. `line` counts from 1, `offset` is in bytes of the uncompressed file."""

    path: Path
    line: int
    offset: int
    kind: str
    found: str

    def __str__(self) -> str:
        return f"{self.path.name}, line {self.line} (byte {self.offset}): {self.kind}: {self.found}"

    def as_json(self) -> dict[str, Any]:
        """Return the problem for scripts."""
        return {**vars(self), "path": str(self.path)}
