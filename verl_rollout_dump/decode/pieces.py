"""Joining millions of short byte strings, chosen by id: in C where that was built, else with numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from verl_rollout_dump import native
from verl_rollout_dump.decode.json_text import Row

# Marks of pieces, as bits. A piece that begins or ends inside a character, and may leave its row no UTF-8: this one
# the joining looks into, and leaves it only on rows that are none.
SPLIT = native.SPLIT
# A split piece that may complete a line separator, which then has to be escaped; in C it is looked whether it does.
COMPLETES_SEPARATOR = native.COMPLETES_SEPARATOR
# A piece that is not known: what it says has to be asked of the tokenizer.
UNKNOWN = 4


class Joined(NamedTuple):
    """The rows, and the marks of all pieces of each, (n,) uint8; SPLIT only where the row is no UTF-8."""

    rows: Sequence[Row]
    marks: np.ndarray


class Pieces(Protocol):
    """Byte strings without a zero byte, and their marks, by id. For one thread at a time."""

    def join(self, ids: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> Joined:
        """Join the pieces of `ids[i, starts[i]:stops[i]]` for every row i.

        `ids` is (n, length); the last piece stands for every id that is none of the others.
        """
