"""The first way: a table of JSON-escaped bytes by id, made of a vocabulary and the rule that reads it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from verl_rollout_dump.decode.each_row import EachRow
from verl_rollout_dump.decode.json_text import COMPLETING, escape_bytes, escape_separators, is_whole
from verl_rollout_dump.decode.pieces import Pieces
from verl_rollout_dump.decode.rules import RowChange, Rule
from verl_rollout_dump.decode.vocabulary import Vocabulary

# What an id alone tells of its row, the stronger the higher: nothing, its piece is whole characters; the row may not
# be UTF-8, the piece begins or ends inside a character; nor may its line separators all be escaped, the piece may
# complete one; all has to be asked of the tokenizer.
WHOLE, PARTIAL, COMPLETES_SEPARATOR, ASKED = range(4)

# Ids joined at once: few enough that the working arrays stay in the processor's cache and a few megabytes, many
# enough that the GIL is let go of rarely.
BLOCK = 1 << 17


def raw_pieces(vocabulary: Vocabulary, rule: Rule, skip_special_tokens: bool) -> list[bytes | None]:
    """Return each id's bytes; empty for what is skipped, None for what has to be asked."""
    pieces = [None if token is None else rule.piece(token) for token in vocabulary.tokens]
    for token_id in vocabulary.special if skip_special_tokens else ():
        pieces[token_id] = b""
    return pieces


def _mark(piece: bytes | None) -> int:
    if piece is None:
        return ASKED
    if is_whole(piece):
        return WHOLE
    return COMPLETES_SEPARATOR if piece.startswith(COMPLETING) else PARTIAL


def _row_blocks(lengths: np.ndarray) -> Iterator[slice]:
    """Cut the rows into runs of at most BLOCK ids (a longer row is alone)."""
    ends = lengths.cumsum()
    first = 0
    while first < lengths.size:
        last = int(np.searchsorted(ends, ends[first] - lengths[first] + BLOCK, side="right"))
        yield slice(first, max(first + 1, last))
        first = max(first + 1, last)


class Table:
    """Joins pieces; asks the tokenizer where they do not tell all."""

    name = "table"

    def __init__(
        self, pieces: list[bytes | None], mend: RowChange | None, finishes: list[RowChange], ask: EachRow
    ) -> None:
        # One place behind the last id stands for every id outside the table.
        pieces = [*pieces, None]
        self._outside = len(pieces) - 1
        self._pieces = Pieces([escape_bytes(piece or b"") for piece in pieces], [_mark(piece) for piece in pieces])
        self._flat = np.empty(0, np.int64)
        self._mend, self._finishes, self._ask = mend, finishes, ask

    def json_rows(self, ids: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> list[bytes]:
        """Return each row's text as the body of a JSON string."""
        rows: list[bytes] = []
        for block in _row_blocks(stops - starts):
            cuts = zip(ids[block], starts[block].tolist(), stops[block].tolist(), strict=True)
            rows += self._block([row[start:stop] for row, start, stop in cuts])
        return rows

    def _block(self, parts: list[np.ndarray]) -> list[bytes]:
        row_ends = np.cumsum([part.size for part in parts])
        flat = self._inside(np.concatenate(parts, out=self._room_for(int(row_ends[-1]))))
        rows, marks = self._pieces.join(flat, row_ends)
        asked = []
        for row in np.flatnonzero(marks).tolist():
            mended = self._mended(rows[row], marks[row])
            if mended is None:
                asked.append(row)
            else:
                rows[row] = mended
        for finish in self._finishes:
            rows = [finish(row) for row in rows]
        for row in asked:
            rows[row] = self._ask.json_row(parts[row].tolist())
        return rows

    def _room_for(self, count: int) -> np.ndarray:
        if self._flat.size < count:
            self._flat = np.empty(count, np.int64)
        return self._flat[:count]

    def _inside(self, flat: np.ndarray) -> np.ndarray:
        as_unsigned = flat.view(np.uint64)  # negative ids are then the largest of all
        if not flat.size or as_unsigned.max() < self._outside:
            return flat
        return np.where(as_unsigned < self._outside, flat, self._outside)

    def _mended(self, row: bytes, mark: int) -> bytes | None:
        """Return the row as UTF-8 with all its separators escaped; None if it has to be asked."""
        if mark == ASKED:
            return None
        if not is_whole(row):
            if self._mend is None:
                return None
            row = self._mend(row)
        return escape_separators(row) if mark == COMPLETES_SEPARATOR else row
