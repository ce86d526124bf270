"""Joins pieces with the loop of `native/join.c`: a few processor cycles per id."""

from __future__ import annotations

from ctypes import CDLL

import numpy as np

from verl_rollout_dump.decode.pieces import Joined
from verl_rollout_dump.native import PIECE, Integers, NumberRows, PieceTable, Text, in_buffers, join_rows
from verl_rollout_dump.native.piece_layout import HEAD

_BYTES_PER_ID = 6  # bytes of text that are reserved for an id


class NativePieces:
    """Pieces in the form that join.c reads."""

    def __init__(self, library: CDLL, pieces: list[bytes], marks: list[int]) -> None:
        self._library = library
        lengths = np.array([len(piece) for piece in pieces], np.int64)
        records = np.zeros(len(pieces), PIECE)
        records["head"] = np.array([piece[:HEAD] for piece in pieces], f"S{HEAD}").view(f"V{HEAD}")
        records["length"], records["marks"] = np.minimum(lengths, 255), marks
        starts = np.concatenate([[0], lengths.cumsum()])
        self._table = PieceTable(records, b"".join(pieces) + bytes(HEAD), starts)

    def join(self, ids: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> Joined:
        """Join the pieces of `ids[i, starts[i]:stops[i]]` for every row i."""
        rows = NumberRows(ids, starts, stops, np.int64)
        marks = np.empty(len(rows), np.uint8)

        def write(first: int, text: Text, ends: Integers) -> int:
            return join_rows(self._library, rows, first, self._table, text, ends, marks[first:])

        return Joined(in_buffers(write, len(rows), _BYTES_PER_ID * rows.total), marks)
