"""Open a file of a dump as a stream of JSON lines: plain or compressed, or the rows of a Parquet file.

Compressions are in storage/compression.py. To add another kind of file, add a function and a row in `_OPENERS`.
Errors inside a stream are `DumpReadError`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from datetime import date, time
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from verl_rollout_dump.reader.errors import DumpReadError, FileGoneError
from verl_rollout_dump.reader.exact_json import exact_json
from verl_rollout_dump.reader.optional_imports import require
from verl_rollout_dump.serialization.markers import bytes_marker
from verl_rollout_dump.storage.compression import CODECS, Codec, Plain
from verl_rollout_dump.storage.step_files import PARQUET_SUFFIX, STEP_SUFFIX

BLOCK = 4 << 20  # bytes read at a time
_ROWS_PER_READ = 256


class _CompressedStream(io.RawIOBase):
    """A compressed stream that raises `DumpReadError` for broken compression."""

    def __init__(self, path: Path, file: BinaryIO, faults: tuple[type[Exception], ...]) -> None:
        self._path, self._file, self._faults = path, file, faults

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; 0 at the end. Raises `DumpReadError`."""
        try:
            data = self._file.read(len(buffer))
        except self._faults as error:
            raise DumpReadError(f"{self._path} cannot be decompressed to its end: {error}") from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file underneath."""
        self._file.close()
        super().close()


class _GeneratedStream(io.RawIOBase):
    """A stream over an iterator of bytes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; 0 at the end."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        part, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def _open_compressed(codec: type[Codec], path: Path) -> BinaryIO:
    """Open a compressed file. Raises `MissingPackageError`."""
    if codec.package:
        require(codec.package, f"reading {path.name}")
    return io.BufferedReader(_CompressedStream(path, codec.open(path), codec.faults()), BLOCK)


def _open_parquet(path: Path) -> BinaryIO:
    """Open a Parquet file, such as TRL's completions, as JSON lines. Raises `MissingPackageError`."""
    parquet = require("pyarrow.parquet", f"reading {path.name}")
    try:
        file = parquet.ParquetFile(path)
    except require("pyarrow", "reading Parquet").ArrowInvalid as error:
        raise DumpReadError(f"{path} is not a Parquet file: {error}") from error
    return io.BufferedReader(_GeneratedStream(_parquet_lines(file)), BLOCK)


def _parquet_lines(file: Any) -> Iterator[bytes]:
    """Yield the rows of a Parquet file as JSON lines, `_ROWS_PER_READ` at a time.

    Bytes become `$bytes` markers and decimals numbers; NaN and infinities stay what they are, as Python writes them.
    """
    for batch in file.iter_batches(batch_size=_ROWS_PER_READ):
        yield b"".join(exact_json(row, _json_of_parquet) + b"\n" for row in batch.to_pylist())


def _json_of_parquet(value: Any) -> Any:
    """Return the JSON form of a value of a type that Parquet has and JSON lacks."""
    if isinstance(value, bytes):
        return bytes_marker(value)
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, (date, time)) else str(value)


_OPENERS: dict[str, Callable[[Path], BinaryIO]] = {
    STEP_SUFFIX: Plain.open,
    **{codec.suffix: partial(_open_compressed, codec) for codec in CODECS.values() if codec.suffix},
    PARQUET_SUFFIX: _open_parquet,
}


def open_stream(path: Path) -> BinaryIO:
    """Open a file of a dump by its suffix. Raises `DumpReadError` if it cannot be opened or the suffix is unknown.

    If the file does not exist any more, the error is a `FileGoneError`.
    """
    opener = _OPENERS.get(path.suffix)
    if opener is None:
        raise DumpReadError(f"{path}: unknown suffix {path.suffix!r}. Supported: {', '.join(_OPENERS)}")
    try:
        return opener(path)
    except FileNotFoundError as error:
        raise FileGoneError(f"{path} cannot be opened: {error.strerror}") from error
    except OSError as error:
        raise DumpReadError(f"{path} cannot be opened: {error.strerror or error}") from error


def read_span(path: Path, offset: int, length: int) -> bytes:
    """Return `length` bytes from `offset` of the uncompressed content. Raises `DumpReadError`."""
    with open_stream(path) as file:
        if path.suffix == STEP_SUFFIX:
            file.seek(offset)
        else:
            skip(file, offset)
        pieces = []
        while length and (piece := file.read(length)):
            pieces.append(piece)
            length -= len(piece)
    return b"".join(pieces)


def skip(file: BinaryIO, size: int) -> None:
    """Skip `size` bytes of a stream that cannot seek."""
    while size and (piece := file.read(min(size, BLOCK))):
        size -= len(piece)
