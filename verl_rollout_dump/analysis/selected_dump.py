"""`SelectedDump`: a dump of which only the selected records count, with the steps and indexes that they have in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verl_rollout_dump.analysis.selection import Selection
from verl_rollout_dump.reader import Dump, Row
from verl_rollout_dump.reader.parallel import OnProgress, ignore_progress
from verl_rollout_dump.reader.value_types import DumpTypes, types_of_records

# column of the index -> what stands there for a record that is not selected
_BLANK: dict[str, float] = {"score": np.nan, "uid_group": 0, "prompt_group": 0}


def select(dump: Dump, **selection: Any) -> SelectedDump:
    """Return the records of a dump that a `Selection` with these arguments selects, as a dump of their own."""
    return SelectedDump(dump, Selection(**selection))


class SelectedDump(Dump):
    """The selected records of a dump: `rows`, `records` and the tables have only them, in the order of the selection.

    Columns of a step (`column`, `scores`, `groups`) keep their length, so that places in them are indexes of records;
    values of other records are blank there (NaN, 0). `columns` has only the selected records.
    """

    def __init__(self, whole: Dump, selection: Selection) -> None:
        super().__init__(whole.path, whole.fields)
        self._whole = whole
        self._selection = selection

    @property
    def is_whole(self) -> bool:
        """False: the files hold other records too."""
        return False

    @cached_property
    def _kept(self) -> dict[int, NDArray[np.int64]]:
        kept: defaultdict[int, list[int]] = defaultdict(list)
        for row in self.rows():
            kept[row.step].append(row.index)
        return {step: np.array(sorted(kept[step]), np.int64) for step in sorted(kept)}

    @property
    def steps(self) -> list[int]:
        """The steps with selected records, ascending."""
        return list(self._kept)

    @property
    def unreadable_lines(self) -> int:
        """The number of unreadable lines met so far."""
        return max(super().unreadable_lines, self._whole.unreadable_lines)

    def __len__(self) -> int:
        return sum(map(len, self._kept.values()))

    def rows(self, steps: Iterable[int] | None = None) -> Iterator[Row]:
        """Stream the selected records (of some steps) with their positions, as stored."""
        rows = self._selection.rows(self._whole)
        if steps is None:
            return rows
        wanted = set(steps)
        return (row for row in rows if row.step in wanted)

    def types(self, workers: int = 1, on_progress: OnProgress = ignore_progress) -> DumpTypes:
        """Read the selected records and return the types of their columns."""
        return types_of_records(row.record for row in self.rows())

    def column(self, step: int, name: str) -> NDArray[Any]:
        """Return a column of the index for the records of a step; see the class for those not selected."""
        values = super().column(step, name)
        others = np.ones(len(values), bool)
        others[self._kept.get(step, np.array([], np.int64))] = False
        values[others] = _BLANK.get(name, 0)
        return values

    def scores(self, step: int) -> NDArray[np.float64]:
        """Return the scores of a step; NaN for a record that is not selected."""
        return self.column(step, "score")

    def groups(self, step: int) -> NDArray[np.uint64]:
        """Return what the rollouts of a prompt share; 0 for a record that is not selected."""
        values = super().groups(step)
        values[np.isin(np.arange(len(values)), self._kept.get(step, np.array([])), invert=True)] = 0
        return values

    def columns(self, *names: str) -> dict[str, NDArray[Any]]:
        """Return columns of the index for the selected records."""
        found = super().columns(*names, "step", "index")
        size = int(found["index"].max(initial=0)) + 1
        kept = [step * size + indexes for step, indexes in self._kept.items()]
        is_kept = np.isin(found["step"] * size + found["index"], np.concatenate(kept) if kept else np.array([]))
        return {name: found[name][is_kept] for name in names}
