"""Compression of step files. To add one: write a class, and add a row to `CODECS` (and to the choices of the config).

A codec writes and reads: an instance compresses one file, `open` returns the uncompressed bytes of one.
"""

from __future__ import annotations

import gzip
import importlib
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Protocol, cast

from verl_rollout_dump.config.schema import Compression

# The parts of lines in order; a view shares one buffer with other rows, to avoid a copy.
Pieces = Sequence[bytes | memoryview]


class Codec(Protocol):
    """Compresses one file piece by piece, and opens files that were compressed that way."""

    # What the file name ends with, after `.jsonl`.
    suffix: ClassVar[str]
    # The package that must be installed; "" for the standard library.
    package: ClassVar[str]

    def compress(self, pieces: Pieces) -> Pieces:
        """Return the bytes to write for these pieces; may be empty."""

    def finish(self) -> bytes:
        """Return the bytes that end the file."""

    @staticmethod
    def open(path: Path) -> BinaryIO:
        """Open a file for reading its uncompressed bytes. Raises OSError, and ImportError without `package`."""

    @staticmethod
    def faults() -> tuple[type[Exception], ...]:
        """Return the exceptions that reading raises if the compressed bytes are damaged or end too early."""


class Plain:
    """No compression."""

    suffix: ClassVar[str] = ""
    package: ClassVar[str] = ""

    def compress(self, pieces: Pieces) -> Pieces:
        """Return the pieces themselves."""
        return pieces

    def finish(self) -> bytes:
        """Return no bytes: a plain file needs no end."""
        return b""

    @staticmethod
    def open(path: Path) -> BinaryIO:
        """Open an uncompressed file. Raises OSError."""
        return path.open("rb", buffering=0)

    @staticmethod
    def faults() -> tuple[type[Exception], ...]:
        """Return no exceptions: plain bytes are never damaged in a way that reading notices."""
        return ()


class Gzip:
    """gzip, level 1: four times slower than zstd for the same ratio, and readable everywhere."""

    suffix: ClassVar[str] = ".gz"
    package: ClassVar[str] = ""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(level=1, wbits=31)  # 31: with gzip's header, without a time stamp

    def compress(self, pieces: Pieces) -> Pieces:
        """Return the bytes to write for these pieces; may be empty."""
        return [self._compressor.compress(b"".join(pieces))]

    def finish(self) -> bytes:
        """Return the bytes that end the file."""
        return self._compressor.flush()

    @staticmethod
    def open(path: Path) -> BinaryIO:
        """Open a gzip file. Raises OSError."""
        return cast(BinaryIO, gzip.open(path, "rb"))

    @staticmethod
    def faults() -> tuple[type[Exception], ...]:
        """Return the exceptions that damaged gzip data raises."""
        return EOFError, OSError, zlib.error


class Zstd:
    """zstd, level 1. Raises ImportError without the package `zstandard`."""

    suffix: ClassVar[str] = ".zst"
    package: ClassVar[str] = "zstandard"

    def __init__(self) -> None:
        try:
            zstandard = _zstandard()
        except ImportError as error:
            raise ImportError(
                "rollout_dump.writer.compression=zstd needs the package zstandard: pip install zstandard"
            ) from error
        self._compressor = zstandard.ZstdCompressor(level=1).compressobj()

    def compress(self, pieces: Pieces) -> Pieces:
        """Return the bytes to write for these pieces; may be empty."""
        return [bytes(self._compressor.compress(b"".join(pieces)))]

    def finish(self) -> bytes:
        """Return the bytes that end the file."""
        return bytes(self._compressor.flush())

    @staticmethod
    def open(path: Path) -> BinaryIO:
        """Open a zstd file, also one of several frames. Raises OSError, and ImportError without the package."""
        decompressor = _zstandard().ZstdDecompressor()
        return cast(BinaryIO, decompressor.stream_reader(path.open("rb"), read_across_frames=True, closefd=True))

    @staticmethod
    def faults() -> tuple[type[Exception], ...]:
        """Return the exceptions that damaged zstd data raises."""
        return (_zstandard().ZstdError,)


def _zstandard() -> Any:
    return importlib.import_module("zstandard")


CODECS: dict[Compression | None, type[Codec]] = {
    None: Plain,
    Compression.gzip: Gzip,
    Compression.zstd: Zstd,
}
