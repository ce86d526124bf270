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

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from verl_rollout_dump.decode.json_text import Row, is_whole
from verl_rollout_dump.decode.pieces import SPLIT, Joined

_WORD = 16
_WORD_TYPE = np.dtype(f"V{_WORD}")

# Ids joined at once: few enough that the working arrays stay in the processor's cache and a few megabytes, many
# enough that the GIL is let go of rarely.
BLOCK = 1 << 17

# One 64-bit number tells all of a piece that every id asks for: its length, and above these bits its marks.
_LENGTH_BITS = 32


def _row_blocks(lengths: np.ndarray) -> Iterator[slice]:
    """Cut the rows into runs of at most BLOCK ids (a longer row is alone)."""
    ends = lengths.cumsum()
    first = 0
    while first < lengths.size:
        last = int(np.searchsorted(ends, ends[first] - lengths[first] + BLOCK, side="right"))
        yield slice(first, max(first + 1, last))
        first = max(first + 1, last)


def words_at_any_byte(text: np.ndarray) -> np.ndarray:
    """Return the text as overlapping words, one beginning at each byte."""
    words: np.ndarray = np.ndarray((text.size - _WORD + 1,), _WORD_TYPE, text, strides=(1,))
    return words


class _WorkingArrays:
    """Room for one block, kept between calls: fresh pages from the system would cost as much as the joining."""

    def __init__(self) -> None:
        self._flat = np.empty(0, np.int64)
        self._ends = np.zeros(1, np.int64)
        self._words = np.empty(0, _WORD_TYPE)
        self._text = np.empty(0, np.uint8)

    def for_flat(self, count: int) -> np.ndarray:
        """Return room for the ids, one row behind the other."""
        if self._flat.size < count:
            self._flat = np.empty(count, np.int64)
        return self._flat[:count]

    def for_ids(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return room for a leading zero and where each piece ends, and for the words."""
        if self._words.size < count:
            self._ends, self._words = np.zeros(count + 1, np.int64), np.empty(count, _WORD_TYPE)
        return self._ends[: count + 1], self._words[:count]

    def for_text(self, size: int) -> np.ndarray:
        """Return room for the text, and for the padding of its last word."""
        if self._text.size < size + _WORD:
            self._text = np.empty(size + _WORD, np.uint8)
        return self._text


class NumpyPieces:
    """Pieces as arrays of words."""

    def __init__(self, pieces: list[bytes], marks: list[int]) -> None:
        self._pieces = pieces
        lengths = np.array([len(piece) for piece in pieces], np.int64)
        self._told = lengths | np.array(marks, np.int64) << _LENGTH_BITS
        ends = lengths.cumsum()
        words = words_at_any_byte(np.frombuffer(b"".join((bytes(_WORD), *pieces, bytes(_WORD))), np.uint8))
        self._first = words[ends - lengths + _WORD]
        self._first.view(np.uint8).reshape(-1, _WORD)[np.arange(_WORD) >= lengths[:, None]] = 0
        # Of pieces longer than a word; for the others it means nothing.
        self._last = words[ends]
        # Each piece's words after the first and before the last, those of one piece side by side.
        counts = np.maximum((lengths - _WORD - 1) // _WORD, 0)
        self._middle_start = counts.cumsum() - counts
        number = np.arange(counts.sum()) - self._middle_start.repeat(counts)
        self._middle = words[(ends - lengths).repeat(counts) + _WORD * (number + 2)]
        self._room = _WorkingArrays()

    def join(self, ids: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> Joined:
        """Join the pieces of `ids[i, starts[i]:stops[i]]` for every row i."""
        rows: list[Row] = []
        marks = [np.empty(0, np.uint8)]
        for block in _row_blocks(stops - starts):
            cuts = zip(ids[block], starts[block].tolist(), stops[block].tolist(), strict=True)
            joined = self._join_block([row[start:stop] for row, start, stop in cuts])
            rows += joined.rows
            marks.append(joined.marks)
        return Joined(rows, np.concatenate(marks))

    def _join_block(self, parts: list[np.ndarray]) -> Joined:
        row_ends = np.cumsum([part.size for part in parts])
        ids = self._inside(np.concatenate(parts, out=self._room.for_flat(int(row_ends[-1]))))
        ends, words = self._room.for_ids(ids.size)
        self._told.take(ids, out=ends[1:], mode="clip")  # "clip" checks nothing and buffers nothing
        unusual = np.flatnonzero(ends[1:] > _WORD)
        told = ends[1:][unusual]
        ends[1:][unusual] = told & ((1 << _LENGTH_BITS) - 1)
        ends.cumsum(out=ends)
        self._first.take(ids, out=words, mode="clip")
        text = self._room.for_text(int(ends[-1]))
        text_words = words_at_any_byte(text)
        text_words[ends[:-1]] = words
        self._write_long(text_words, ids[unusual], ends[unusual], ends[unusual + 1])
        rows = self._cut(text, ends, ids, row_ends)
        marks = _of_rows(told >> _LENGTH_BITS, np.searchsorted(row_ends, unusual, "right"), len(rows))
        for row in np.flatnonzero(marks & SPLIT).tolist():
            if is_whole(rows[row]):
                marks[row] ^= SPLIT
        return Joined(rows, marks)

    def _inside(self, flat: np.ndarray) -> np.ndarray:
        as_unsigned, last = flat.view(np.uint64), len(self._pieces) - 1  # negative ids are then the largest of all
        if not flat.size or as_unsigned.max() <= last:
            return flat
        return np.where(as_unsigned < last, flat, last)

    def _write_long(self, text_words: np.ndarray, ids: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> None:
        """Write what is left of the pieces longer than a word."""
        long = ends - starts > _WORD
        ids, starts, ends = ids[long], starts[long], ends[long]
        text_words[ends - _WORD] = self._last[ids]
        number = 0
        while ids.size:
            longer = ends - starts > _WORD * (number + 2)
            ids, starts, ends = ids[longer], starts[longer], ends[longer]
            text_words[starts + _WORD * (number + 1)] = self._middle[self._middle_start[ids] + number]
            number += 1

    def _cut(self, text: np.ndarray, ends: np.ndarray, ids: np.ndarray, row_ends: np.ndarray) -> list[Row]:
        rows: list[Row] = [bytes(text.data[start:stop]) for start, stop in pairwise([0, *ends[row_ends].tolist()])]
        for row in [number for number, joined in enumerate(rows) if b"\0" in bytes(joined)]:
            start = row_ends[row - 1] if row else 0
            rows[row] = b"".join(map(self._pieces.__getitem__, ids[start : row_ends[row]].tolist()))
        return rows


def _of_rows(marks: np.ndarray, rows: np.ndarray, count: int) -> np.ndarray:
    together = np.zeros(count, np.uint8)
    np.bitwise_or.at(together, rows, marks.astype(np.uint8))
    return together
