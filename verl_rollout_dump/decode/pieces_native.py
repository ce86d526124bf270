"""Joining pieces with the loop of `native.c`: a few processor cycles for each id."""

from __future__ import annotations

from ctypes import CDLL
from itertools import pairwise

import numpy as np

from verl_rollout_dump.decode.json_text import Row
from verl_rollout_dump.decode.pieces import Joined
from verl_rollout_dump.native import HEAD, PIECE, PieceTable, join_rows, with_contiguous_rows

# Bytes of text that an id is given room for at first, and what is given at least; memory that is not written to
# costs nothing.
BYTES_PER_ID, ROOM = 6, 1 << 16


class NativePieces:
    """Pieces as native.c reads them."""

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
        ids = with_contiguous_rows(ids.astype(np.int64, copy=False))
        starts, stops = np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(stops, np.int64)
        rows: list[Row] = []
        marks = [np.empty(0, np.uint8)]
        room = ROOM + BYTES_PER_ID * int((stops - starts).sum())
        while len(rows) < len(starts):
            first = len(rows)
            text = np.empty(room, np.uint8)
            ends, some = join_rows(self._library, ids[first:], starts[first:], stops[first:], self._table, text)
            rows += [text.data[start:stop] for start, stop in pairwise([0, *ends.tolist()])]
            marks.append(some)
            if not len(ends):  # not even one row
                room *= 2
        return Joined(rows, np.concatenate(marks))
