"""Select the steps and records that a user asks for. The same options mean the same records in every command.

    select(dump, where="score < 0.2", step="last").to_pandas()

`step`, `index`, `uid`, `grep` and `where` filter; of what passes `worst`, `best` or `random` choose some; `limit`
bounds the result.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from operator import itemgetter
from typing import TypeVar

from verl_rollout_dump.analysis.known_fields import require_fields
from verl_rollout_dump.analysis.ranking import best_first, best_of_rows
from verl_rollout_dump.analysis.where import Condition, parse_where
from verl_rollout_dump.reader import Dump, DumpReadError, NothingFoundError, Record, Row
from verl_rollout_dump.storage.steps import format_steps, parse_steps

_LAST = "last"
_CHOICES = ("index", "worst", "best", "random")
_Matches = Callable[[Row], bool]
_Value = TypeVar("_Value")


def select_steps(dump: Dump, text: str | None) -> list[int]:
    """Return the steps that a text such as "7", "1-3,9" or "last" names; all steps for None.

    Raises `DumpReadError` if the text is not of this form, `NothingFoundError` if it names no step of the dump.
    """
    steps = dump.steps
    if text is None or not steps:
        return steps
    if text.strip() == _LAST:
        return steps[-1:]
    try:
        wanted = parse_steps(text.replace(" ", ""))
    except ValueError as error:
        raise DumpReadError(f'--step {text}: expected steps such as "7", "1-3,9" or "last"') from error
    found = [step for step in steps if step in wanted]
    if not found:
        raise NothingFoundError(f"{dump.path} has no step {text}. It has: {format_steps(steps)}")
    return found


def condition_of(dump: Dump, where: str | None) -> Condition:
    """Return the condition of `--where`; for None one that is always true.

    Raises `WhereError` if the text is not an expression, or names a field that no record of the dump has.
    """
    if where is None:
        return Condition("", lambda record: True)
    condition = parse_where(where)
    require_fields(dump, condition)
    return condition


def with_step(row: Row) -> Record:
    """Return the record of a row with its `step`, which may stand only in the name of its file."""
    return row.record if "step" in row.record else {**row.record, "step": row.step}


@dataclass(frozen=True)
class Selection:
    """The records that a user asks for. None: no restriction of this kind.

    Raises `DumpReadError` if two of `index`, `worst`, `best` and `random` are given, or `seed` without `random`.
    """

    step: str | None = None  # see `select_steps`; with `index` the default is the last one
    index: int | None = None  # of the record in its step
    uid: str | None = None  # how the uid begins
    grep: str | None = None  # a regular expression, found in the prompt or the response
    where: str | None = None
    worst: int | None = None
    best: int | None = None
    random: int | None = None
    seed: int | None = None  # of `random`: the same seed gives the same records
    limit: int | None = None

    def __post_init__(self) -> None:
        if sum(getattr(self, name) is not None for name in _CHOICES) > 1:
            raise DumpReadError("--index, --worst, --best and --random exclude each other; give one of them")
        if self.seed is not None and self.random is None:
            raise DumpReadError("--seed is of --random; give --random N, too")

    @property
    def filters(self) -> Selection:
        """The same filters without a choice among what passes, and without a limit."""
        return replace(self, worst=None, best=None, random=None, seed=None, limit=None)

    @property
    def is_filtered(self) -> bool:
        """Whether some records of the selected steps are not selected, whatever their scores."""
        return self._has_conditions or self.index is not None

    @property
    def is_ranked(self) -> bool:
        """Whether records are selected by their scores."""
        return self.worst is not None or self.best is not None

    @property
    def is_chosen(self) -> bool:
        """Whether a number of records was asked for, other than by `limit`."""
        return self.is_ranked or self.random is not None

    def steps(self, dump: Dump) -> list[int]:
        """Return the selected steps. Raises `DumpReadError`, `NothingFoundError`."""
        is_last = self.step is None and self.index is not None
        return select_steps(dump, _LAST if is_last else self.step)

    def rows(self, dump: Dump) -> Iterator[Row]:
        """Yield the records: ranked ones by score, others as they stand. Raises `DumpReadError`, `WhereError`."""
        return islice(self._chosen(dump), self.limit)

    def matches(self, dump: Dump) -> _Matches:
        """Return whether a record passes `uid`, `grep` and `where`, as a function. Raises `WhereError`."""
        holds = condition_of(dump, self.where)
        search = _search_of(self.grep)
        fields, uid = dump.fields, self.uid

        def passes(row: Row) -> bool:
            if uid is not None and not _begins_with(fields.value(row.record, "uid"), uid):
                return False
            if search is not None and not any(search(fields.text(row.record, role)) for role in _SEARCHED):
                return False
            return holds(with_step(row))

        return passes

    @property
    def _has_conditions(self) -> bool:
        return not self.uid is self.grep is self.where is None

    def _chosen(self, dump: Dump) -> Iterator[Row]:
        if self.index is not None:
            return self._by_index(dump, self.index)
        if self.is_ranked:
            return self._by_score(dump)
        matching = self._matching(dump)
        return matching if self.random is None else iter(self.sample(matching, self.random))

    def _matching(self, dump: Dump) -> Iterator[Row]:
        rows = dump.rows(self.steps(dump))
        return filter(self.matches(dump), rows) if self._has_conditions else rows

    def _by_index(self, dump: Dump, index: int) -> Iterator[Row]:
        passes = self.matches(dump)
        return filter(passes, (_row(dump, step, index) for step in self.steps(dump)))

    def _by_score(self, dump: Dump) -> Iterator[Row]:
        sign = 1.0 if self.best is None else -1.0
        count = self.worst if self.best is None else self.best
        if self._has_conditions:
            ranked = best_of_rows(dump, self._matching(dump), sign)
        else:
            ranked = best_first(dump, self.steps(dump), sign)
        return (_row(dump, step, index) for step, index in islice(ranked, count))

    @cached_property
    def _seed(self) -> int:
        """The seed; without one a new one, which stays the same for this selection."""
        return random.randrange(2**32) if self.seed is None else self.seed

    def sample(self, values: Iterable[_Value], count: int) -> list[_Value]:
        """Return `count` of some values by chance, in their order. The same seed gives the same places."""
        chance = random.Random(self._seed)
        kept: list[tuple[int, _Value]] = []
        for seen, value in enumerate(values):
            if len(kept) < count:
                kept.append((seen, value))
            elif (place := chance.randint(0, seen)) < count:
                kept[place] = seen, value
        return [value for _, value in sorted(kept, key=itemgetter(0))]


EVERYTHING = Selection()
_SEARCHED = ("prompt", "response")


def _row(dump: Dump, step: int, index: int) -> Row:
    place = dump.place(step, index)
    return Row(step, index, place.path, 0, dump.raw_record(step, index), place.length)


def _begins_with(uid: object, beginning: str) -> bool:
    return uid is not None and str(uid).startswith(beginning)


def _search_of(pattern: str | None) -> Callable[[str], object] | None:
    """Return the search for a regular expression. Raises `DumpReadError` if it is not one."""
    try:
        return None if pattern is None else re.compile(pattern).search
    except re.error as error:
        raise DumpReadError(f"--grep {pattern}: not a regular expression: {error}") from error
