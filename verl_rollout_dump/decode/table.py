"""The first decoder: a table of JSON-escaped bytes by id, made from a vocabulary and the rule that reads it."""

from __future__ import annotations

import numpy as np

from verl_rollout_dump import native
from verl_rollout_dump.decode.each_row import EachRow
from verl_rollout_dump.decode.json_text import COMPLETING, Row, escape_bytes, escape_separators, is_whole
from verl_rollout_dump.decode.pieces import COMPLETES_SEPARATOR, SPLIT, UNKNOWN, Pieces
from verl_rollout_dump.decode.pieces_native import NativePieces
from verl_rollout_dump.decode.pieces_numpy import NumpyPieces
from verl_rollout_dump.decode.rules import RowChange, Rule
from verl_rollout_dump.decode.vocabulary import Vocabulary


def raw_pieces(vocabulary: Vocabulary, rule: Rule, skip_special_tokens: bool) -> list[bytes | None]:
    """Return each id's bytes: empty for a skipped token, None for one that the tokenizer must decode."""
    pieces = [None if token is None else rule.piece(token) for token in vocabulary.tokens]
    for token_id in vocabulary.special if skip_special_tokens else ():
        pieces[token_id] = b""
    return pieces


def _marks(piece: bytes | None) -> int:
    if piece is None:
        return UNKNOWN
    if is_whole(piece):
        return 0
    return SPLIT | COMPLETES_SEPARATOR if piece.startswith(COMPLETING) else SPLIT


def pieces_by_id(pieces: list[bytes], marks: list[int]) -> Pieces:
    """Return the fastest joiner that is available for these pieces."""
    return NumpyPieces(pieces, marks) if native.library is None else NativePieces(native.library, pieces, marks)


class Table:
    """Joins pieces; rows with unknown or broken pieces go through the tokenizer."""

    name = "table"

    def __init__(
        self, pieces: list[bytes | None], repair: RowChange | None, finishes: list[RowChange], fallback: EachRow
    ) -> None:
        # The place after the last id stands for every id outside the table.
        pieces = [*pieces, None]
        escaped = [escape_bytes(piece or b"") for piece in pieces]
        self._pieces = pieces_by_id(escaped, [_marks(piece) for piece in pieces])
        self._repair, self._finishes, self._fallback = repair, finishes, fallback

    def json_rows(self, ids: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> list[Row]:
        """Return each row's text as the body of a JSON string."""
        joined, marks = self._pieces.join(ids, starts, stops)
        rows = list(joined)
        asked = {}
        for row in np.flatnonzero(marks).tolist():
            repaired = self._repaired(rows[row], int(marks[row]))
            if repaired is None:
                asked[row] = self._fallback.json_row(ids[row, starts[row] : stops[row]].tolist())
            else:
                rows[row] = repaired
        for finish in self._finishes:
            rows = [row if number in asked else finish(bytes(row)) for number, row in enumerate(rows)]
        return [asked.get(number, row) for number, row in enumerate(rows)] if asked else rows

    def _repaired(self, row: Row, marks: int) -> Row | None:
        """Return the row as UTF-8 with all its separators escaped; None if the tokenizer must decode it."""
        if marks & UNKNOWN:
            return None
        if marks & SPLIT:
            if self._repair is None:
                return None
            row = self._repair(bytes(row))
        return escape_separators(bytes(row)) if marks & COMPLETES_SEPARATOR else row
