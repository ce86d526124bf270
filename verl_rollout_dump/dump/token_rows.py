"""Token ids (and what goes with each token) of many rollouts, and which part of each row is real.

A padded batch is (n, length) with a mask; a jagged one is one flat array with offsets. Both stay as they are, by
reference; what a chunk needs is cut out when the chunk is written. A mask says only where a row begins and ends:
zeros between two real tokens (tool output, in a mask made for the loss) do not cut a response.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from verl_rollout_dump import native
from verl_rollout_dump.batch.host_copies import on_host
from verl_rollout_dump.batch.rollout_batch import BatchError
from verl_rollout_dump.native import Numbers


@dataclass
class Chunk:
    """Rows `first` to `last` of a batch; fields that share a mask look into it once."""

    first: int
    last: int
    # By the identities of a mask and of the chosen rows: where each row begins and ends.
    bounds: dict[tuple[int, int], tuple[Numbers, Numbers]] = field(default_factory=dict)


@dataclass
class TokenRows:
    """n rows of numbers: `numbers` is (n, length) with `mask` of the same shape or None, or flat with `offsets`."""

    numbers: Numbers
    mask: Numbers | None = None
    offsets: Numbers | None = None
    rows: Sequence[int] | None = None  # the rows that are meant, where that is not all

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
        return TokenRows(self.numbers, self.mask, self.offsets, rows)

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


def bounds(mask: Numbers) -> tuple[Numbers, Numbers]:
    """Return where the nonzero part of each row of a mask (rows, length) begins and ends; 0, 0 where there is none."""
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
    """Whether these are token ids: a whole-number array or tensor (n, length), jagged or not, or lists of ints."""
    if hasattr(values, "dtype"):
        kind = getattr(values.dtype, "kind", None)
        is_whole = kind in "iu" if kind else str(values.dtype).startswith(("torch.int", "torch.uint", "torch.long"))
        return is_whole and values.ndim == 2
    if not isinstance(values, (list, tuple)) or not values:
        return False
    return all(is_row_of_ids(row) for row in values)


def is_row_of_ids(row: Any) -> bool:
    """Whether one row is a list or 1-D array of whole numbers; an empty one is."""
    if hasattr(row, "dtype"):
        return row.ndim == 1 and are_token_ids(row[None])
    return isinstance(row, (list, tuple)) and all(type(token) is int for token in row[:1])


def token_rows(name: str, values: Any, mask: Any, host: Callable[[Any], Numbers] = on_host) -> TokenRows:
    """Read token ids or per-token numbers as a trainer holds them, with their mask.

    `host` makes arrays of tensors. Raises `BatchError` where the mask is of another shape.
    """
    if is_flat_jagged(values):
        return TokenRows(host(values.values()), offsets=host(values.offsets()))
    if getattr(values, "is_nested", False):
        values = [on_host(row) for row in values.unbind()]
    if isinstance(values, (list, tuple)):
        rows = [on_host(row).reshape(-1) for row in values]
        offsets = np.cumsum([0, *map(len, rows)])
        return TokenRows(np.concatenate(rows) if rows else np.zeros(0, np.int64), offsets=offsets)
    numbers = host(values)
    if mask is None or getattr(mask, "is_nested", False):
        return TokenRows(numbers)
    host_mask = host(mask)
    if host_mask.shape != numbers.shape:
        raise BatchError(f"{name} is of shape {numbers.shape} and its mask of {host_mask.shape}; they must be equal")
    return TokenRows(numbers, mask=host_mask)


def is_flat_jagged(values: Any) -> bool:
    """Whether this is a jagged tensor (n, *) whose rows lie one behind the other."""
    is_jagged = getattr(values, "is_nested", False) and hasattr(values, "offsets")
    return is_jagged and values.ndim == 2 and values.lengths() is None and values.values().ndim == 1
