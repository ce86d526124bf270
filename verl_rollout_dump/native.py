"""The loops that are written in C (`native.c`), where the package was installed with a C compiler or from a wheel.

They let go of the GIL while they run. Where the library is not there, numpy does the same work several times slower:
whoever calls looks at `library` first, and keeps a way of its own.
"""

from __future__ import annotations

import ctypes
import logging
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

logger = logging.getLogger(__name__)

Numbers = npt.NDArray[np.int64]

# `struct piece` of native.c: a piece's first bytes, its length (or any above HEAD), its marks, of which SPLIT is one.
HEAD, SPLIT = 14, 1
PIECE = np.dtype([("head", f"V{HEAD}"), ("length", "u1"), ("marks", "u1")])

ADDRESS, COUNT = ctypes.c_void_p, ctypes.c_int64
ARGUMENTS = {
    "join_rows": [
        ADDRESS,
        COUNT,
        ADDRESS,
        ADDRESS,
        COUNT,
        ADDRESS,
        COUNT,
        ADDRESS,
        ADDRESS,
        ADDRESS,
        COUNT,
        ADDRESS,
        ADDRESS,
    ],
    "nonzero_bounds": [ADDRESS, COUNT, COUNT, COUNT, ADDRESS, ADDRESS],
}
RESULTS = {"join_rows": COUNT, "nonzero_bounds": None}


def load() -> ctypes.CDLL | None:
    """Return the library; None where it was not built, or cannot be loaded here (which is logged)."""
    for path in (Path(__file__).with_name("_native" + suffix) for suffix in EXTENSION_SUFFIXES):
        if path.exists():
            try:
                return declared(ctypes.CDLL(str(path)))
            except OSError as error:
                logger.warning("%s cannot be loaded (%s); numpy does its work, more slowly", path, error)
    return None


def declared(loaded: ctypes.CDLL) -> ctypes.CDLL:
    """Tell ctypes what the functions take and return."""
    for name, arguments in ARGUMENTS.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = arguments, RESULTS[name]
    return loaded


library = load()


def with_contiguous_rows(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an (n, length) array as C can walk it: steps of one number within a row, of whole numbers between rows."""
    is_walkable = array.shape[1] < 2 or array.strides[1] == array.itemsize
    return array if is_walkable and array.strides[0] % array.itemsize == 0 else np.ascontiguousarray(array)


class PieceTable(NamedTuple):
    """All pieces, the last of which stands for every id that is none of the others."""

    pieces: npt.NDArray[np.void]  # (n,) of PIECE
    content: bytes  # their bytes, one behind the other, and HEAD more
    starts: Numbers  # (n + 1,): where each begins in `content`


def join_rows(
    lib: ctypes.CDLL, ids: Numbers, starts: Numbers, stops: Numbers, table: PieceTable, text: npt.NDArray[np.uint8]
) -> tuple[Numbers, npt.NDArray[np.uint8]]:
    """Join the pieces of `ids[i, starts[i]:stops[i]]` into `text`, for as many rows as find room there.

    `ids` is (n, length) int64, its rows contiguous; `starts` and `stops` are contiguous (n,). Returns where each row
    that was joined ends in `text`, and the marks of its pieces together, SPLIT only where it is no UTF-8.
    """
    n = len(starts)
    ends, marks = np.empty(n, np.int64), np.empty(n, np.uint8)
    done = lib.join_rows(
        ids.ctypes.data,
        ids.strides[0] // ids.itemsize,
        starts.ctypes.data,
        stops.ctypes.data,
        n,
        table.pieces.ctypes.data,
        len(table.pieces) - 1,
        table.content,
        table.starts.ctypes.data,
        text.ctypes.data,
        text.size,
        ends.ctypes.data,
        marks.ctypes.data,
    )
    return ends[:done], marks[:done]


def nonzero_bounds(lib: ctypes.CDLL, mask: npt.NDArray[Any]) -> tuple[Numbers, Numbers]:
    """Return where the nonzero part of each row begins and ends; 0, 0 where there is none.

    `mask` is (n, length) of whole numbers or bools, its rows contiguous.
    """
    n, length = mask.shape
    starts, stops = np.empty(n, np.int64), np.empty(n, np.int64)
    size = mask.itemsize
    lib.nonzero_bounds(mask.ctypes.data, mask.strides[0], length * size, n, starts.ctypes.data, stops.ctypes.data)
    return starts // size, -(-stops // size)
