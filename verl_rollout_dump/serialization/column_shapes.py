"""Columns of nested dicts and lists, converted key by key instead of row by row.

Reward functions return the same dict for every rollout, with different numbers. Such a column is split into one list
per key (and per item of its lists), each list is converted as a whole, and the rows are assembled again. `survey` first
checks that the result is the same as that of `Conversion`: the column holds only exact dicts with plain keys, exact
lists, and atoms, which cannot refer back to anything. Otherwise it returns None, and `Conversion` does the work.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, TypeAlias

from verl_rollout_dump.serialization import lists, markers
from verl_rollout_dump.serialization.arrays import RecordOf
from verl_rollout_dump.serialization.rule import Context, Node
from verl_rollout_dump.serialization.values import JsonValue

# So many different sets of keys may a column have.
_GROUPS = 16
SURVEYED = lists.ATOMS | {dict, list}


@dataclass(frozen=True, slots=True)
class _Atoms:
    """Values that hold no others."""

    values: list[Any]

    def convert(self, context: Context, node: Node, depth: int, record_of: RecordOf) -> list[JsonValue]:
        """Return the values as JSON-ready."""
        return lists.one_by_one(context, self.values, node, depth, record_of)


@dataclass(frozen=True, slots=True)
class _Table:
    """Dicts of the same keys: one list of values per key."""

    keys: tuple[str, ...]
    columns: list[_Shape]

    def convert(self, context: Context, node: Node, depth: int, record_of: RecordOf) -> list[JsonValue]:
        """Return the dicts, their values JSON-ready."""
        done = [
            column.convert(context, node.grow(key), depth + 1, record_of)
            for key, column in zip(self.keys, self.columns, strict=True)
        ]
        keys = self.keys
        return [dict(zip(keys, row)) for row in zip(*done)]  # noqa: B905 (strict costs time; survey made them equal)


@dataclass(frozen=True, slots=True)
class _Nested:
    """Lists: their items in one list, and where each ends in it."""

    ends: list[int]
    items: _Shape

    def convert(self, context: Context, node: Node, depth: int, record_of: RecordOf) -> list[JsonValue]:
        """Return the lists, their items JSON-ready."""
        ends = self.ends
        flat = self.items.convert(
            context, node.grow(None), depth + 1, lambda place: record_of(bisect_right(ends, place))
        )
        return [flat[start:end] for start, end in zip([0, *ends], ends)]  # noqa: B905 (the last has no successor)


@dataclass(frozen=True, slots=True)
class _Groups:
    """Values of several kinds: for each kind, where its values are."""

    size: int
    members: list[tuple[list[int], _Shape]]

    def convert(self, context: Context, node: Node, depth: int, record_of: RecordOf) -> list[JsonValue]:
        """Return the values in their own order."""
        out: list[JsonValue] = [None] * self.size
        for places, shape in self.members:
            done = shape.convert(context, node, depth, lambda place, places=places: record_of(places[place]))  # type: ignore[misc]
            for place, value in zip(places, done, strict=True):
                out[place] = value
        return out


_Shape: TypeAlias = "_Atoms | _Table | _Nested | _Groups"


def survey(context: Context, values: list[Any], depth: int, ancestors: frozenset[int]) -> _Shape | None:
    """Return how to convert values as a whole; None if they must be converted one by one.

    `ancestors` are the identities of all containers around them, in any row: one that is met again may be a cycle.
    """
    kinds = set(map(type, values))
    if kinds <= lists.ATOMS:
        return _Atoms(values)
    if depth >= context.max_depth or not kinds <= SURVEYED:
        return None
    # Keys of other types are left alone here: to compare them may call anything.
    if not set(map(type, chain.from_iterable(value for value in values if type(value) is dict))) <= {str}:
        return None
    if len(kinds) > 1:
        return _survey_groups(context, values, depth, ancestors)
    if not ancestors.isdisjoint(map(id, values)):
        return None
    if context.max_elements is not None and max(map(len, values)) > context.max_elements:
        return None
    if kinds == {dict}:
        return _survey_dicts(context, values, depth, ancestors)
    ends, items = list(accumulate(map(len, values))), list(chain.from_iterable(values))
    if lists.ATOMS.issuperset(map(type, items)):
        return _Nested(ends, _Atoms(items))
    shape = survey(context, items, depth + 1, ancestors.union(map(id, values)))
    return None if shape is None else _Nested(ends, shape)


def _survey_dicts(
    context: Context, values: list[dict[Any, Any]], depth: int, ancestors: frozenset[int]
) -> _Shape | None:
    """Return how to convert dicts of text keys: at once if they have the same keys, in the same order."""
    keys = tuple(values[0])
    if set(map(tuple, values)) != {keys}:
        return _survey_groups(context, values, depth, ancestors)
    if not keys or not all(map(str.isascii, keys)) or markers.RESERVED.fullmatch(keys[0]):
        return None
    around = None
    columns: list[_Shape] = []
    for column in map(list, zip(*map(dict.values, values))):  # noqa: B905 (all have the same keys)
        if lists.ATOMS.issuperset(map(type, column)):
            columns.append(_Atoms(column))
            continue
        around = around or ancestors.union(map(id, values))
        shape = survey(context, column, depth + 1, around)
        if shape is None:
            return None
        columns.append(shape)
    return _Table(keys, columns)


def _survey_groups(context: Context, values: list[Any], depth: int, ancestors: frozenset[int]) -> _Shape | None:
    """Return how to convert values of several kinds, or dicts of several sets of keys."""
    places: dict[Any, list[int]] = {}
    for place, value in enumerate(values):
        kind = tuple(value) if type(value) is dict else type(value)
        places.setdefault(kind, []).append(place)
        if len(places) > _GROUPS:
            return None
    members: list[tuple[list[int], _Shape]] = []
    for group in places.values():
        shape = survey(context, [values[place] for place in group], depth, ancestors)
        if shape is None:
            return None
        members.append((group, shape))
    return _Groups(len(values), members)
