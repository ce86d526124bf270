"""Split a stream into lines, in bounded memory for any content.

Lines end in `\\n` only; Python's `str.splitlines` would also split at U+2028. Of a line longer than `LONGEST_LINE`
only the beginning is kept, for messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from verl_rollout_dump.reader.streams import BLOCK

LONGEST_LINE = 256 << 20  # bytes
_BEGINNING = 200  # bytes kept of a line that is too long
BOM = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """A line: `number` counts from 1; `offset` and `length` are bytes, without the line feed."""

    number: int
    offset: int
    length: int
    data: bytes
    is_ended: bool

    @property
    def is_too_long(self) -> bool:
        """Whether `data` holds only the beginning of the line."""
        return self.length > len(self.data)


class _PendingLine:
    """The pieces of a line whose end has not been read yet."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self.length = 0

    def add(self, piece: bytes) -> None:
        """Add a piece; of a line that is too long only the beginning is kept."""
        self.length += len(piece)
        self._pieces.append(piece)
        if self.length > self._longest:
            self._pieces = [b"".join(self._pieces)[:_BEGINNING]]

    def take(self) -> tuple[bytes, int]:
        """Return the data and the full length in bytes, and start the next line."""
        taken = b"".join(self._pieces), self.length
        self._pieces, self.length = [], 0
        return taken


def read_lines(file: BinaryIO, longest: int = LONGEST_LINE) -> Iterator[Line]:
    """Yield the lines of a stream from its position on; the last one may lack its line feed."""
    number, offset = 1, 0
    pending = _PendingLine(longest)
    while block := file.read(BLOCK):
        parts = block.split(b"\n")
        rest = parts.pop()
        for part in parts:
            if pending.length or len(part) > longest:
                pending.add(part)
                part, length = pending.take()
            else:
                length = len(part)
            yield Line(number, offset, length, part, True)
            number += 1
            offset += length + 1
        if rest:
            pending.add(rest)
    if pending.length:
        part, length = pending.take()
        yield Line(number, offset, length, part, False)
