"""Read dumps: the steps of a directory in their order, and the records of a file one by one.

Lines end in `\\n` and in nothing else: Python's `str.splitlines` would also cut at U+2028. Files that verl's own
code wrote are read too; its bare `NaN` becomes the float it means.
"""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from verl_rollout_dump.run_record import FILENAME


class DumpReadError(ValueError):
    """A file of a dump is not what it should be. The message names the file, the line, and what was found."""


def open_zstd(path: Path) -> BinaryIO:
    """Open a zstd file for reading; ImportError says what to install."""
    import zstandard

    return io.BufferedReader(zstandard.open(path, "rb"))  # the reader alone knows no lines


def open_plain(path: Path) -> BinaryIO:
    """Open a file that is not compressed for reading."""
    return path.open("rb")


def open_gzip(path: Path) -> BinaryIO:
    """Open a gzip file for reading."""
    return gzip.open(path, "rb")  # type: ignore[return-value]


OPENERS: dict[str, Callable[[Path], BinaryIO]] = {
    ".jsonl": open_plain,
    ".gz": open_gzip,
    ".zst": open_zstd,
}
STEP_FILE = re.compile(r"(?P<before>.*?)(?P<step>\d+)(?P<after>[^\d]*?)\.jsonl(\.gz|\.zst)?")


def step_files(directory: Path) -> dict[int, Path]:
    """Return the files of a dump by step, in rising order of steps (10 after 2).

    The step is the last number in the name. Raises `DumpReadError` where the directory is none, or holds no step.
    """
    if not directory.is_dir():
        raise DumpReadError(f"{directory} is not a directory; expected the DIR of trainer.rollout_data_dir=DIR")
    found = {int(match["step"]): path for path in directory.iterdir() if (match := STEP_FILE.fullmatch(path.name))}
    if not found:
        raise DumpReadError(f"{directory} holds no step files (such as 1.jsonl): nothing was dumped there yet")
    return dict(sorted(found.items()))


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of one file. Raises `DumpReadError` for a line that is no JSON object."""
    with OPENERS[path.suffix](path) as file:
        for number, line in enumerate(file, start=1):
            record = parse_line(line)
            if not isinstance(record, dict):
                shown = line[:80].decode("utf-8", "replace").rstrip("\n")
                raise DumpReadError(f"{path}, line {number}: expected one JSON object, found {shown!r}")
            yield record


def parse_line(line: bytes) -> Any:
    """Parse a line strictly, or as Python's json does where it is not strict JSON; None: it is neither."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        pass  # verl's own dumps hold NaN, which Python's json reads
    try:
        return json.loads(line)
    except ValueError:
        return None


def read_run_record(directory: Path) -> dict[str, Any] | None:
    """Return the content of `run.json`, or None where another program wrote the dump."""
    try:
        content = orjson.loads((directory / FILENAME).read_bytes())
    except FileNotFoundError:
        return None
    except orjson.JSONDecodeError as error:
        raise DumpReadError(f"{directory / FILENAME} is not JSON: {error}") from error
    return content if isinstance(content, dict) else None
