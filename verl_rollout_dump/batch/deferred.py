"""`Late`: a value that is worked out when it is first asked for.

So that a trainer's thread need not, where only the dump wants it: that asks on a thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from verl_rollout_dump.batch.host_copies import is_elsewhere

T = TypeVar("T")


class Late(Generic[T]):
    """A value to be worked out of others that nobody changes any more."""

    def __init__(self, work_out: Callable[..., T], *sources: Any) -> None:
        self._work_out = work_out
        self._sources = sources
        self._values: list[T] = []

    @property
    def value(self) -> T:
        """The value; the first time it is worked out, and the sources are let go."""
        sources = self._sources  # read before `_values` is looked at: another thread may be here too
        if not self._values:
            self._values.append(self._work_out(*sources))
            self._sources = ()
        return self._values[0]

    @property
    def nbytes(self) -> int:
        """How many bytes of memory the value, or what it will be worked out of, keeps."""
        return sum(getattr(kept, "nbytes", 0) for kept in (*self._sources, *self._values))


class LateRows(Late[Any]):
    """n rows, of a column or of a mask."""

    def __init__(self, n: int, work_out: Callable[..., Any], *sources: Any) -> None:
        super().__init__(work_out, *sources)
        self._n = n

    def __len__(self) -> int:
        return self._n


def late_rows(n: int, work_out: Callable[..., Any], *sources: Any) -> Any:
    """Return rows to come; at once where a source is not in host memory, and could not be read from another thread."""
    if any(map(is_elsewhere, sources)):
        return work_out(*sources)
    return LateRows(n, work_out, *sources)


def present(rows: Any) -> Any:
    """Return rows as they are, late ones worked out."""
    return rows.value if isinstance(rows, LateRows) else rows
