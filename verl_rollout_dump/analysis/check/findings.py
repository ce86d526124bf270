"""The kinds of findings, with their severities and meanings."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

ERROR = "error"
WARNING = "warning"


class _Kind(NamedTuple):
    """A kind of finding: its severity and meaning."""

    severity: str
    meaning: str


KINDS: dict[str, _Kind] = {
    "torn": _Kind(ERROR, "a file ends in the middle of a line: the writer died"),
    "not JSON": _Kind(ERROR, "a line is not JSON"),
    "not an object": _Kind(ERROR, "a line is JSON, but not an object"),
    "too long": _Kind(ERROR, "a line is longer than the limit of the reader (256 MiB)"),
    "unreadable": _Kind(ERROR, "a file cannot be opened or decompressed to its end"),
    "NaN": _Kind(ERROR, "bare NaN or Infinity, which strict JSON readers refuse"),
    "not UTF-8": _Kind(ERROR, "bytes that are not UTF-8, or half a surrogate pair"),
    "empty file": _Kind(ERROR, "a file without records"),
    "broken run.json": _Kind(ERROR, "run.json is not JSON"),
    "missing step": _Kind(ERROR, "run.json says that a step was written, and it is not there"),
    "lost step": _Kind(ERROR, "the run itself says that it failed to write a step, or dropped it"),
    "unwritten step": _Kind(ERROR, "a run was given a step and ended before it wrote it"),
    "run killed": _Kind(ERROR, "run.json says that a run is running, and its process is gone"),
    "missing part": _Kind(ERROR, "steps lack the files of some writers (shards)"),
    "stringified": _Kind(WARNING, "numbers, booleans or tensors that became text (json.dumps(default=str))"),
    "elided": _Kind(WARNING, 'arrays shortened to "...": their values are gone'),
    "gap": _Kind(WARNING, "steps are missing between the first and the last"),
    "doubled step": _Kind(WARNING, "two files hold the same step"),
    "doubled uid": _Kind(WARNING, "two records have the same uid, where uids name rollouts"),
    "doubled record": _Kind(WARNING, "records of a step are equal in every field: padding rows, or written twice"),
    "uneven steps": _Kind(WARNING, "steps have different numbers of records"),
    "different keys": _Kind(WARNING, "records have different keys"),
    "different types": _Kind(WARNING, "values of a field have different types"),
    "marker": _Kind(WARNING, "values that could not be written"),
    "wrong step": _Kind(WARNING, "records say another step than their file's name"),
    "unknown step": _Kind(WARNING, "records without a step, in a file without a number"),
    "BOM": _Kind(WARNING, "a byte order mark at the start of a file"),
    "CRLF": _Kind(WARNING, "lines that end in \\r\\n"),
    "blank line": _Kind(WARNING, "lines without content"),
    "no line feed": _Kind(WARNING, "the last line has no line feed: whole, but the writer did not finish it"),
    "leftover": _Kind(WARNING, "a file that a dead attempt had begun to write"),
    "run failed": _Kind(WARNING, "run.json says that the run failed"),
}


@dataclass(frozen=True)
class Finding:
    """A finding: its kind, how often it occurs, and the first place (file, line, field) as text."""

    kind: str
    message: str
    count: int = 1
    where: str = ""

    @property
    def severity(self) -> str:
        """`error` or `warning`."""
        return KINDS[self.kind].severity

    def as_json(self) -> dict[str, Any]:
        """Return the finding as JSON values."""
        return {"severity": self.severity, **asdict(self)}
