"""`Deferred`: a value that is computed when it is first read.

Lets the writing thread compute values that only the dump needs, so that the training thread does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from verl_rollout_dump.batch.host_copies import is_elsewhere

_T = TypeVar("_T")


class Deferred(Generic[_T]):
    """A value computed from sources that nobody changes any more."""

    def __init__(self, compute: Callable[..., _T], *sources: Any) -> None:
        self._compute = compute
        self._sources = sources
        self._values: list[_T] = []

    @property
    def value(self) -> _T:
        """The value. The first read computes it and releases the sources."""
        sources = self._sources  # read before `_values` is checked: another thread may be here too
        if not self._values:
            self._values.append(self._compute(*sources))
            self._sources = ()
        return self._values[0]

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the value, or its sources until it is computed, keep."""
        return sum(getattr(kept, "nbytes", 0) for kept in (*self._sources, *self._values))


class DeferredRows(Deferred[Any]):
    """n rows of a column or of a mask."""

    def __init__(self, n: int, compute: Callable[..., Any], *sources: Any) -> None:
        super().__init__(compute, *sources)
        self._n = n

    def __len__(self) -> int:
        return self._n


def deferred_rows(n: int, compute: Callable[..., Any], *sources: Any) -> Any:
    """Defer the computation of n rows, or compute them now if a source is on a device.

    A tensor on a device must not be read from another thread while the trainer uses its stream.
    """
    if any(map(is_elsewhere, sources)):
        return compute(*sources)
    return DeferredRows(n, compute, *sources)


def resolved(rows: Any) -> Any:
    """Return the rows themselves, computing them if they are deferred."""
    return rows.value if isinstance(rows, DeferredRows) else rows
