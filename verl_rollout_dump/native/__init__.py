"""The loops that are written in C, available if the package was installed with a C compiler or from a wheel.

They release the GIL while they run. Without the library, numpy and orjson do the same work several times slower:
callers check `library` first and have their own fallback.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import math
import sys
from collections.abc import Callable
from fractions import Fraction
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from verl_rollout_dump.native.piece_layout import HEAD

logger = logging.getLogger(__name__)

Numbers = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]
Text = npt.NDArray[np.uint8]

# `struct piece` of join.c: the first bytes of a piece, its length (any number above HEAD if it is longer), its marks.
PIECE = np.dtype([("head", f"V{HEAD}"), ("length", "u1"), ("marks", "u1")])

_ADDRESS, _COUNT = ctypes.c_void_p, ctypes.c_int64
_ROWS = [_ADDRESS, _COUNT, _ADDRESS, _ADDRESS, _COUNT]  # numbers, stride, starts, stops, rows
_ARGUMENTS = {
    "join_rows": [*_ROWS, _ADDRESS, _COUNT, _ADDRESS, _ADDRESS, _ADDRESS, _COUNT, _ADDRESS, _ADDRESS],
    "write_integers": [*_ROWS, _ADDRESS, _COUNT, _ADDRESS],
    "write_floats": [*_ROWS, _ADDRESS, _ADDRESS, _COUNT, _ADDRESS],
    "nonzero_bounds": [_ADDRESS, _COUNT, _COUNT, _COUNT, _ADDRESS, _ADDRESS],
}

# Text for which a buffer has room: at least, since memory that is not written to costs nothing, and at most, since for
# larger blocks the system hands out fresh pages each time, which it has to clear.
ROOM, MOST_ROOM = 1 << 16, 1 << 21


def load() -> ctypes.CDLL | None:
    """Return the library; None if it was not built, or cannot be loaded (which is logged)."""
    if sys.byteorder != "little":  # it puts digits together in words
        return None
    for path in (Path(__file__).with_name("library" + suffix) for suffix in EXTENSION_SUFFIXES):
        if path.exists():
            try:
                return _declared(ctypes.CDLL(str(path)))
            except OSError as error:
                logger.warning("%s cannot be loaded (%s); numpy does its work, more slowly", path, error)
    return None


def _declared(loaded: ctypes.CDLL) -> ctypes.CDLL:
    """Declare the arguments and results of the functions to ctypes."""
    for name, arguments in _ARGUMENTS.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = arguments, _COUNT
    return loaded


library = load()


class NotFinite(ValueError):
    """Some numbers have no JSON form (NaN or an infinity)."""


class NumberRows:
    """Parts of the rows of an array (n, length): `numbers[i, starts[i]:stops[i]]`, as the C loops read them."""

    def __init__(self, numbers: Numbers, starts: Numbers, stops: Numbers, dtype: npt.DTypeLike) -> None:
        self.numbers = _with_contiguous_rows(numbers.astype(dtype, copy=False))
        self.starts, self.stops = np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(stops, np.int64)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def total(self) -> int:
        """The total of the numbers in all parts."""
        return int((self.stops - self.starts).sum())

    def arguments(self, first: int) -> tuple[int, int, int, int, int]:
        """Return the arguments that describe the rows from `first` on to C."""
        numbers, starts, stops = self.numbers[first:], self.starts[first:], self.stops[first:]
        stride = numbers.strides[0] // numbers.itemsize
        return numbers.ctypes.data, stride, starts.ctypes.data, stops.ctypes.data, len(starts)


def _with_contiguous_rows(array: Numbers) -> Numbers:
    """Return an (n, length) array whose layout C can read: adjacent numbers, rows at a multiple of them."""
    is_walkable = array.flags.aligned and (array.shape[1] < 2 or array.strides[1] == array.itemsize)
    return array if is_walkable and array.strides[0] % array.itemsize == 0 else np.array(array, order="C")


def in_buffers(write: Callable[[int, Text, Integers], int], rows: int, room: int) -> list[memoryview]:
    """Return the text of a number of rows, as views of as few buffers as possible.

    `write(first, text, ends)` writes the rows from `first` on into `text`, and their ends into `ends`; it returns how
    many rows fitted. `room` is the expected number of bytes of all rows; it may be too small for one row.
    """
    views: list[memoryview] = []
    room = min(ROOM + room, MOST_ROOM)
    while len(views) < rows:
        text, ends = np.empty(room, np.uint8), np.empty(rows - len(views), np.int64)
        done = write(len(views), text, ends)
        views += [text.data[start:stop] for start, stop in pairwise([0, *ends[:done].tolist()])]
        if not done:
            room *= 2
    return views


class PieceTable(NamedTuple):
    """All pieces; the last one stands for every unknown id."""

    pieces: npt.NDArray[np.void]  # (n,) of PIECE
    content: bytes  # their bytes, one behind the other, and HEAD more
    starts: Integers  # (n + 1,): where each begins in `content`


def join_rows(
    lib: ctypes.CDLL, ids: NumberRows, first: int, table: PieceTable, text: Text, ends: Integers, marks: Text
) -> int:
    """Join the pieces of each row of int64 ids from `first` on; return how many rows fitted into `text`.

    Writes the end of each row in `text`, and the combined marks of its pieces; SPLIT only if the row is not UTF-8.
    """
    pieces, content, starts = table
    table_arguments = pieces.ctypes.data, len(pieces) - 1, content, starts.ctypes.data
    places = text.ctypes.data, text.size, ends.ctypes.data, marks.ctypes.data
    return int(lib.join_rows(*ids.arguments(first), *table_arguments, *places))


# `struct scale` of floats.c.
_SCALE = np.dtype([("power", "u8"), ("half", "u8", 2), ("exponent", "i4"), ("shift", "i4")])


def _scale_of(unit: Fraction, q: int) -> tuple[int, tuple[int, int], int, int]:
    """Return how multiples of 2^q become decimals: in units of the largest power of ten not above `unit`."""
    exponent = math.floor(math.log10(unit))  # exact: no `unit` is near a power of ten but 1, which is one
    inverse = Fraction(10) ** -exponent
    bits = math.floor(math.log2(inverse))
    power = math.ceil(inverse * Fraction(2) ** (63 - bits))  # its first 64 bits, rounded up
    shift = q + bits + 1
    return power, divmod(power << shift + 1, 1 << 64)[::-1], exponent, shift


@functools.cache
def _scales() -> npt.NDArray[np.void]:
    """Return the scale of each exponent of a float32, by its eight bits; then those of powers of two.

    The neighbour below a power of two is only half as far away.
    """
    exponents = [max(bits, 1) - 150 for bits in range(256)]
    units = [(distance * Fraction(2) ** q, q) for distance in (Fraction(1), Fraction(3, 4)) for q in exponents]
    return np.array([_scale_of(unit, q) for unit, q in units], _SCALE)


def write_integers(lib: ctypes.CDLL, rows: NumberRows, first: int, text: Text, ends: Integers) -> int:
    """Write each row of int64 from `first` on as a JSON array; return how many rows fitted."""
    return int(lib.write_integers(*rows.arguments(first), text.ctypes.data, text.size, ends.ctypes.data))


def write_floats(lib: ctypes.CDLL, rows: NumberRows, first: int, text: Text, ends: Integers) -> int:
    """Write each row of float32 likewise, with the fewest digits that read back to the same value.

    Raises `NotFinite` for NaN and the infinities.
    """
    places = text.ctypes.data, text.size, ends.ctypes.data
    done = int(lib.write_floats(*rows.arguments(first), _scales().ctypes.data, *places))
    if done < 0:
        raise NotFinite
    return done


def nonzero_bounds(lib: ctypes.CDLL, mask: Numbers) -> tuple[Integers, Integers]:
    """Return where the nonzero part of each row of a mask (n, length) begins and ends; 0, 0 for a row of zeros.

    The mask holds integers or bools.
    """
    mask = _with_contiguous_rows(mask)
    n, length = mask.shape
    starts, stops, size = np.empty(n, np.int64), np.empty(n, np.int64), mask.itemsize
    lib.nonzero_bounds(mask.ctypes.data, mask.strides[0], length * size, n, starts.ctypes.data, stops.ctypes.data)
    return starts // size, -(-stops // size)
