"""Token ids (and other numbers per token) of many rollouts, and which part of each row is real.

A padded batch is (n, length) with a mask; a jagged one is one flat array with offsets. Both stay as they are, by
reference; the writing thread cuts out what a chunk needs. A mask says only where a row begins and ends: zeros between
two real tokens (tool output, in a mask made for the loss) do not cut a response.

Lists are read row by row: the type of one row says nothing about the next.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from verl_rollout_dump import native
from verl_rollout_dump.batch.deferred import DeferredRows
from verl_rollout_dump.batch.host_copies import on_host
from verl_rollout_dump.batch.rollout_batch import BatchError
from verl_rollout_dump.native import Numbers


class NotNumbersError(BatchError):
    """Rows that should hold one number per token hold something else."""


@dataclass
class Chunk:
    """Rows `first` to `last` (exclusive) of a batch; fields that share a mask read it once."""

    first: int
    last: int
    # By the identities of a mask and of the chosen rows: where each row begins and ends.
    bounds: dict[tuple[int, int], tuple[Numbers, Numbers]] = field(default_factory=dict)


@dataclass
class TokenRows:
    """n rows of numbers.

    `numbers` is (n, length) with `mask` of the same shape or None, or one flat array with `offsets` (n + 1).
    """

    numbers: Numbers
    mask: Numbers | None = None
    offsets: Numbers | None = None
    # The numbers of the rows that are written; None: all of them.
    rows: Sequence[int] | None = None
    # Rows that hold no numbers, by row number: the text or None that stands in their place.
    literals: Mapping[int, str | None] = field(default_factory=dict)

    def __len__(self) -> int:
        if self.rows is not None:
            return len(self.rows)
        return len(self.numbers) if self.offsets is None else len(self.offsets) - 1

    @property
    def longest(self) -> int:
        """The length of the longest row, padding included."""
        if self.offsets is None:
            return int(self.numbers.shape[1])
        return int(np.diff(self.offsets).max(initial=0))

    def take(self, rows: Sequence[int] | None) -> TokenRows:
        """Return the same with only these rows; None: all."""
        return replace(self, rows=rows)

    def of(self, chunk: Chunk) -> tuple[Numbers, Numbers, Numbers]:
        """Return the rows of a chunk as (rows, length) numbers, and where each begins and ends, both (rows,)."""
        span = slice(chunk.first, chunk.last)
        rows: slice | Sequence[int] = span if self.rows is None else self.rows[span]
        if self.offsets is not None:
            starts, stops = self.offsets[:-1][rows], self.offsets[1:][rows]
            return np.broadcast_to(self.numbers, (len(starts), self.numbers.size)), starts, stops
        numbers = self.numbers[rows]
        if self.mask is None:
            length = np.full(len(numbers), numbers.shape[1], dtype=np.int64)
            return numbers, np.zeros_like(length), length
        key = id(self.mask), id(self.rows)
        if key not in chunk.bounds:
            chunk.bounds[key] = bounds(self.mask[rows])
        return numbers, *chunk.bounds[key]

    def literals_of(self, chunk: Chunk) -> dict[int, str | None]:
        """Return the literals of a chunk, by their place in it."""
        if not self.literals:
            return {}
        rows = self.rows if self.rows is not None else range(len(self))
        places = enumerate(rows[chunk.first : chunk.last])
        return {place: self.literals[row] for place, row in places if row in self.literals}


def bounds(mask: Numbers) -> tuple[Numbers, Numbers]:
    """Return where the nonzero part of each row of a mask (rows, length) begins and ends; 0, 0 for a row of zeros."""
    if native.library is not None:
        as_numbers = mask if mask.dtype.kind in "iub" else mask != 0
        return native.nonzero_bounds(native.library, as_numbers)
    length = mask.shape[1]
    real = (mask != 0).tobytes()  # searching bytes is many times faster than argmax, above all from the right
    rows = range(0, length * len(mask), length) if length else [0] * len(mask)
    starts = [max(real.find(b"\1", row, row + length) - row, 0) for row in rows]
    stops = [max(real.rfind(b"\1", row, row + length) - row + 1, 0) for row in rows]
    return np.array(starts, dtype=np.int64), np.array(stops, dtype=np.int64)


def are_token_ids(values: Any) -> bool:
    """Return whether these are token ids.

    Ids are an integer array or tensor (n, length), jagged or not, or n rows of which at least one is a list or array
    of integers (an empty one included) and every other is such a row, text or None.
    """
    if isinstance(values, DeferredRows):
        return False
    kind = _dtype_kind(values)
    if kind not in ("", "O"):
        return kind in "iu" and values.ndim == 2
    if kind == "" and not isinstance(values, (list, tuple)):
        return False
    kinds = set(map(_row_kind, values))
    return "ids" in kinds and "other" not in kinds


def _dtype_kind(values: Any) -> str:
    """Return numpy's letter for the dtype of an array or tensor (`i`, `u`, `f`, `b`, `O`, ...); "" without a dtype."""
    dtype = getattr(values, "dtype", None)
    if dtype is None:
        return ""
    name = str(dtype).removeprefix("torch.")
    prefixes = {"int": "i", "uint": "u", "float": "f", "bfloat": "f", "bool": "b"}
    return getattr(dtype, "kind", None) or next((k for p, k in prefixes.items() if name.startswith(p)), "V")


def _row_kind(row: Any) -> str:
    """Return what a row of a list is: "ids", "text" (or None), or "other"."""
    if row is None or isinstance(row, str):
        return "text"
    kind = _dtype_kind(row)
    if kind in ("i", "u"):
        return "ids"
    if kind not in ("", "O"):
        return "ids" if getattr(row, "size", None) == 0 or getattr(row, "shape", None) == (0,) else "other"
    if kind == "" and not isinstance(row, (list, tuple)):
        return "other"
    return "ids" if all(map(_is_integer, row[:1])) else "other"


def _is_integer(token: Any) -> bool:
    try:
        operator.index(token)
    except TypeError:
        return False
    return type(token) is not bool


def token_rows(name: str, values: Any, mask: Any, host: Callable[[Any], Numbers] = on_host) -> TokenRows:
    """Read token ids or other numbers per token as a trainer holds them, with their mask.

    `host` turns tensors into arrays. Raises `NotNumbersError` where rows hold something else, and `BatchError` where
    the mask is of another shape.
    """
    if _is_flat_jagged(values):
        return TokenRows(host(values.values()), offsets=host(values.offsets()))
    if getattr(values, "is_nested", False):
        values, mask = list(values.unbind()), None  # a jagged row is real throughout
    if isinstance(values, (list, tuple)) or _dtype_kind(values) == "O":
        return _listed_rows(name, list(values), mask)
    numbers = host(values)
    if numbers.ndim != 2 or numbers.dtype.kind not in "iufb":
        raise NotNumbersError(f"{name} is {numbers.dtype} of shape {numbers.shape}; expected numbers (n, length)")
    if mask is None or getattr(mask, "is_nested", False):
        return TokenRows(numbers)
    host_mask = host(mask)
    if host_mask.shape != numbers.shape:
        raise BatchError(f"{name} is of shape {numbers.shape} and its mask of {host_mask.shape}; they must be equal")
    return TokenRows(numbers, mask=host_mask)


def _listed_rows(name: str, values: list[Any], mask: Any) -> TokenRows:
    """Read a list of rows, each by its own type; a row that is text or None becomes a literal.

    `mask` may be None, (n, length), or n rows as long as those of `values`. Raises as `token_rows`.
    """
    literals = {number: row for number, row in enumerate(values) if row is None or isinstance(row, str)}
    masks = [None] * len(values) if mask is None else list(mask.unbind() if hasattr(mask, "unbind") else mask)
    if len(masks) != len(values):
        raise BatchError(f"{name} has {len(values)} rows and its mask {len(masks)}; expected as many")
    rows = [
        np.zeros(0, np.int64) if number in literals else _masked(name, _numbers_of(name, row), one)
        for number, (row, one) in enumerate(zip(values, masks, strict=True))
    ]
    filled = [row for row in rows if row.size]
    if len({row.dtype for row in filled}) > 1:  # joined they would be one type, which changes the digits of floats
        raise NotNumbersError(f"the rows of {name} are of several types: {sorted({str(row.dtype) for row in filled})}")
    offsets = np.cumsum([0, *map(len, rows)])
    return TokenRows(np.concatenate(filled) if filled else np.zeros(0, np.int64), offsets=offsets, literals=literals)


def _numbers_of(name: str, row: Any) -> Numbers:
    """Return one row as a flat array: integers as int64, floats in their own type. Raises `NotNumbersError`."""
    numbers = on_host(row).reshape(-1)
    if numbers.dtype.kind in "iub":
        return numbers.astype(np.int64, copy=False)
    if numbers.dtype.kind == "O" and all(map(_is_integer, numbers)):
        return np.array([operator.index(token) for token in numbers], np.int64)
    if numbers.dtype.kind == "f":
        return numbers
    raise NotNumbersError(f"a row of {name} is {row!r:.80}; expected one number per token")


def _masked(name: str, row: Numbers, mask: Any) -> Numbers:
    """Return the real part of a row. Raises `BatchError` where its mask has another length."""
    if mask is None:
        return row
    real = np.flatnonzero(on_host(mask))
    if len(on_host(mask)) != len(row):
        raise BatchError(f"a row of {name} has {len(row)} numbers and its mask {len(on_host(mask))}; expected as many")
    return row[real[0] : real[-1] + 1] if real.size else row[:0]


def _is_flat_jagged(values: Any) -> bool:
    """Return whether this is a jagged tensor (n, *) whose rows lie one after the other in memory."""
    is_jagged = getattr(values, "is_nested", False) and hasattr(values, "offsets")
    return is_jagged and values.ndim == 2 and values.lengths() is None and values.values().ndim == 1
