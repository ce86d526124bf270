"""Joins millions of short byte strings, chosen by id: in C if it was built, otherwise with numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from verl_rollout_dump.decode.json_text import Row
from verl_rollout_dump.native import piece_layout

# Marks of pieces, as bits. SPLIT: the piece begins or ends inside a character, so its row may not be UTF-8. Joining
# checks this, and keeps the mark only on rows that are not UTF-8.
SPLIT = piece_layout.SPLIT
# A split piece that may complete a line separator, which must then be escaped; the C code checks whether it does.
COMPLETES_SEPARATOR = piece_layout.COMPLETES_SEPARATOR
# An unknown piece: its row is decoded by the tokenizer.
UNKNOWN = 4


class Joined(NamedTuple):
    """The rows, and the marks of all their pieces, (n,) uint8; SPLIT only if the row is not UTF-8."""

    rows: Sequence[Row]
    marks: np.ndarray


class Pieces(Protocol):
    """Byte strings without a zero byte, and their marks, by id. Not safe for several threads at a time."""

    def join(self, ids: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> Joined:
        """Join the pieces of `ids[i, starts[i]:stops[i]]` for every row i.

        `ids` is (n, length); the last piece stands for every unknown id.
        """
