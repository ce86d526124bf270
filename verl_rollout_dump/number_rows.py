"""Rows of numbers (token ids, log-probabilities) as JSON arrays: in C where that was built, else by orjson."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import CDLL
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from verl_rollout_dump import native
from verl_rollout_dump.decode import Row
from verl_rollout_dump.native import Integers, NotFinite, NumberRows, Numbers, Text


class Written(NamedTuple):
    """How numbers of one kind are written in C."""

    dtype: npt.DTypeLike
    write: Callable[[CDLL, NumberRows, int, Text, Integers], int]
    size: int  # bytes of text of a number, that there is room for


# By the kind and the size of the dtype. The others are orjson's.
IN_C = {
    **dict.fromkeys(("i1", "i2", "i4", "i8", "u1", "u2", "u4"), Written(np.int64, native.write_integers, 7)),
    "f4": Written(np.float32, native.write_floats, 13),
}


def json_arrays(numbers: Numbers, starts: Numbers, stops: Numbers) -> Sequence[Row]:
    """Return `numbers[i, starts[i]:stops[i]]` of every row i as a JSON array of numbers.

    Floats are written in the fewest digits that read back as the same. Raises `NotFinite` for what JSON cannot write.
    """
    written = IN_C.get(f"{numbers.dtype.kind}{numbers.itemsize}")
    if native.library is None or written is None:
        return by_orjson(numbers, starts, stops)
    rows = NumberRows(numbers, starts, stops, written.dtype)
    return native.in_buffers(partial(written.write, native.library, rows), len(rows), written.size * rows.total)


def by_orjson(numbers: Numbers, starts: Numbers, stops: Numbers) -> list[bytes]:
    """Do the same, row by row."""
    spans = zip(numbers, starts.tolist(), stops.tolist(), strict=True)
    native_order = numbers.dtype.newbyteorder("=")
    rows = [np.ascontiguousarray(row[start:stop], native_order) for row, start, stop in spans]
    if numbers.dtype.kind == "f" and not all(np.isfinite(row).all() for row in rows):
        raise NotFinite  # orjson would write null without a word
    return [orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) for row in rows]
