"""Joining millions of short byte strings with numpy: all ids of a block at once, a handful of calls.

Each piece's first sixteen bytes, padded with zeros, are one word. The words are written, in order, at the positions
where the pieces begin (any byte, not only multiples of sixteen), so that each overwrites the padding of those before
it. A piece longer than sixteen bytes gets its last sixteen as a second word that ends where the piece ends, one
longer than thirty-two the words between them: these reach into no neighbour.

No piece holds a zero byte: JSON writes U+0000 with printable characters. So a zero in the result, and only that,
shows padding written over text. numpy promises no order for overlapping writes; looking for the zero (a `memchr`)
makes the result sure without that promise, and `bytes.join` stands by.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

WORD = 16
_WORD_TYPE = np.dtype(f"V{WORD}")

# One 64-bit number tells all of a piece that every id asks for: its length, and above these bits its mark.
_LENGTH_BITS = 32


class Joined(NamedTuple):
    """The rows, and the highest mark among the pieces of each."""

    rows: list[bytes]
    marks: np.ndarray


def words_at_any_byte(text: np.ndarray) -> np.ndarray:
    """Return the text as overlapping words, one beginning at each byte."""
    words: np.ndarray = np.ndarray((text.size - WORD + 1,), _WORD_TYPE, text, strides=(1,))
    return words


class WorkingArrays:
    """Room for one block, kept between calls: fresh pages from the system would cost as much as the joining."""

    def __init__(self) -> None:
        self._ends = np.zeros(1, np.int64)
        self._words = np.empty(0, _WORD_TYPE)
        self._text = np.empty(0, np.uint8)

    def for_ids(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return room for a leading zero and where each piece ends, and for the words."""
        if self._words.size < count:
            self._ends, self._words = np.zeros(count + 1, np.int64), np.empty(count, _WORD_TYPE)
        return self._ends[: count + 1], self._words[:count]

    def for_text(self, size: int) -> np.ndarray:
        """Return room for the text, and for the padding of its last word."""
        if self._text.size < size + WORD:
            self._text = np.empty(size + WORD, np.uint8)
        return self._text


class Pieces:
    """Byte strings without a zero byte and a small number, their mark, by id. For one thread at a time."""

    def __init__(self, pieces: list[bytes], marks: list[int]) -> None:
        self._pieces = pieces
        lengths = np.array([len(piece) for piece in pieces], np.int64)
        self._told = lengths | np.array(marks, np.int64) << _LENGTH_BITS
        ends = lengths.cumsum()
        words = words_at_any_byte(np.frombuffer(b"".join((bytes(WORD), *pieces, bytes(WORD))), np.uint8))
        self._first = words[ends - lengths + WORD]
        self._first.view(np.uint8).reshape(-1, WORD)[np.arange(WORD) >= lengths[:, None]] = 0
        # Of pieces longer than a word; for the others it means nothing.
        self._last = words[ends]
        # Each piece's words after the first and before the last, those of one piece side by side.
        counts = np.maximum((lengths - WORD - 1) // WORD, 0)
        self._middle_start = counts.cumsum() - counts
        number = np.arange(counts.sum()) - self._middle_start.repeat(counts)
        self._middle = words[(ends - lengths).repeat(counts) + WORD * (number + 2)]
        self._room = WorkingArrays()

    def join(self, ids: np.ndarray, row_ends: np.ndarray) -> Joined:
        """Join the pieces of each row. `ids` holds all rows, every id within the table; rows end at `row_ends`."""
        ends, words = self._room.for_ids(ids.size)
        self._told.take(ids, out=ends[1:], mode="clip")  # "clip" checks nothing and buffers nothing
        unusual = np.flatnonzero(ends[1:] > WORD)
        told = ends[1:][unusual]
        ends[1:][unusual] = told & ((1 << _LENGTH_BITS) - 1)
        ends.cumsum(out=ends)
        self._first.take(ids, out=words, mode="clip")
        text = self._room.for_text(int(ends[-1]))
        text_words = words_at_any_byte(text)
        text_words[ends[:-1]] = words
        self._write_long(text_words, ids[unusual], ends[unusual], ends[unusual + 1])
        rows = self._cut(text, ends, ids, row_ends)
        return Joined(rows, _highest(told >> _LENGTH_BITS, np.searchsorted(row_ends, unusual, "right"), len(rows)))

    def _write_long(self, text_words: np.ndarray, ids: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> None:
        """Write what is left of the pieces longer than a word."""
        long = ends - starts > WORD
        ids, starts, ends = ids[long], starts[long], ends[long]
        text_words[ends - WORD] = self._last[ids]
        number = 0
        while ids.size:
            longer = ends - starts > WORD * (number + 2)
            ids, starts, ends = ids[longer], starts[longer], ends[longer]
            text_words[starts + WORD * (number + 1)] = self._middle[self._middle_start[ids] + number]
            number += 1

    def _cut(self, text: np.ndarray, ends: np.ndarray, ids: np.ndarray, row_ends: np.ndarray) -> list[bytes]:
        rows = [bytes(text.data[start:stop]) for start, stop in pairwise([0, *ends[row_ends].tolist()])]
        for row in [number for number, joined in enumerate(rows) if b"\0" in joined]:
            start = row_ends[row - 1] if row else 0
            rows[row] = b"".join(map(self._pieces.__getitem__, ids[start : row_ends[row]].tolist()))
        return rows


def _highest(marks: np.ndarray, rows: np.ndarray, count: int) -> np.ndarray:
    highest = np.zeros(count, np.int64)
    np.maximum.at(highest, rows, marks)
    return highest
