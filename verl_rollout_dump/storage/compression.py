"""Streaming compression of step files. Adding a kind: one class, one row in `STREAMS`."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Protocol

from verl_rollout_dump.config.schema import Compression

# What lines are put together of; a text in them may be a view of a larger one.
Pieces = Sequence[bytes | memoryview]


class Stream(Protocol):
    """Turns the bytes of a file, piece by piece, into the bytes that are written."""

    suffix: str

    def compress(self, pieces: Pieces) -> Pieces:
        """Return what is to be written for these pieces; may be empty."""

    def finish(self) -> bytes:
        """Return what ends the file."""


class PlainStream:
    """No compression."""

    suffix = ""

    def compress(self, pieces: Pieces) -> Pieces:
        """Return the pieces themselves."""
        return pieces

    def finish(self) -> bytes:
        """Nothing ends a plain file."""
        return b""


class GzipStream:
    """gzip, level 1: four times slower than zstd for the same ratio, and readable everywhere."""

    suffix = ".gz"

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(level=1, wbits=31)  # 31: with gzip's header, without a time stamp

    def compress(self, pieces: Pieces) -> Pieces:
        """Return what is to be written for these pieces; may be empty."""
        return [self._compressor.compress(b"".join(pieces))]

    def finish(self) -> bytes:
        """Return what ends the file."""
        return self._compressor.flush()


class ZstdStream:
    """zstd, level 1. Needs the package `zstandard` (ImportError says so)."""

    suffix = ".zst"

    def __init__(self) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise ImportError(
                "rollout_dump.writer.compression=zstd needs the package zstandard: pip install zstandard"
            ) from error
        self._compressor = zstandard.ZstdCompressor(level=1).compressobj()

    def compress(self, pieces: Pieces) -> Pieces:
        """Return what is to be written for these pieces; may be empty."""
        return [bytes(self._compressor.compress(b"".join(pieces)))]

    def finish(self) -> bytes:
        """Return what ends the file."""
        return bytes(self._compressor.flush())


STREAMS: dict[Compression | None, type[Stream]] = {
    None: PlainStream,
    Compression.gzip: GzipStream,
    Compression.zstd: ZstdStream,
}
