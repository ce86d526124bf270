"""Converts lists of one exact type as a whole, without a Python step per item."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import NoneType
from typing import Any, TypeAlias

import numpy as np

from verl_rollout_dump.config.schema import SerializationConfig
from verl_rollout_dump.serialization import arrays
from verl_rollout_dump.serialization.arrays import RecordOf
from verl_rollout_dump.serialization.json_types import WORD
from verl_rollout_dump.serialization.rule import Context, Node
from verl_rollout_dump.serialization.text import are_encodable
from verl_rollout_dump.serialization.values import JsonValue

# (context, items, place of the items, record of an item) -> JSON-ready items, or None: go through them one by one.
# The list is the walk's own, so that what needs no change is returned as it is.
_WholeList: TypeAlias = "Callable[[Context, list[Any], Node, RecordOf], list[Any] | None]"


def _as_they_are(context: Context, items: list[Any], node: Node, record_of: RecordOf) -> list[Any] | None:
    """Return bools or Nones."""
    return items


def _integers(context: Context, items: list[int], node: Node, record_of: RecordOf) -> list[int] | None:
    """Return ints that fit in 64 bits."""
    return items if min(items) >= WORD.start and max(items) < WORD.stop else None


def _floats(context: Context, items: list[float], node: Node, record_of: RecordOf) -> list[float] | None:
    """Return floats if their sum is finite, since then all of them are (an overflow only costs time)."""
    return items if math.isfinite(sum(items)) else None


def _texts(context: Context, items: list[str], node: Node, record_of: RecordOf) -> list[str] | None:
    """Return texts that are valid as UTF-8 and not too long."""
    limit = context.config.max_chars
    if limit is not None and max(map(len, items)) > limit:
        return None
    return items if are_encodable(items) else None


def _numpy_numbers(context: Context, items: list[Any], node: Node, record_of: RecordOf) -> list[Any] | None:
    """Return numpy scalars of one type, by way of an array."""
    kind = type(items[0])
    entry = context.entry_of(kind)
    node.count(entry.key, record_of(0), len(items))
    array = np.fromiter(items, dtype=kind, count=len(items))
    return arrays.numbers(context, array, node, entry.type_name, record_of)  # type: ignore[return-value]


_NATIVE_LISTS: dict[type[Any], _WholeList] = {
    NoneType: _as_they_are,
    bool: _as_they_are,
    int: _integers,
    float: _floats,
    str: _texts,
}
_NUMPY_SCALARS: tuple[type[Any], ...] = (
    np.bool_,
    *(np.dtype(code).type for code in "bBhHiIlLqQ"),
    *(np.dtype(code).type for code in "efd"),
)
WITH_NUMPY: dict[type[Any], _WholeList] = {
    **_NATIVE_LISTS,
    **dict.fromkeys(_NUMPY_SCALARS, _numpy_numbers),
}
# np.float64 is a float, which JSON knows.
WITH_DOUBLES: dict[type[Any], _WholeList] = {**_NATIVE_LISTS, np.float64: _numpy_numbers}
# Types whose values hold no others.
ATOMS = frozenset(WITH_NUMPY)


def one_by_one(context: Context, items: list[Any], node: Node, depth: int, record_of: RecordOf) -> list[JsonValue]:
    """Return the items of a list that belongs to the conversion: as a whole if they have one type that allows it."""
    kinds = set(map(type, items))
    if len(kinds) == 1:
        whole = context.whole.get(kinds.pop())
        done = whole(context, items, node, record_of) if whole is not None else None
        if done is not None:
            return done
    plain = context.plain
    out: list[JsonValue] = []
    for place, item in enumerate(items):
        check = plain.get(type(item))
        if check is None or not check(item):
            context.record = record_of(place)
            item = context.convert(item, node, depth)
        out.append(item)
    return out


def plain_checks(config: SerializationConfig) -> dict[type[Any], Callable[[Any], object]]:
    """Return, for each exact type that JSON has, the check after which a value is taken as it is.

    All checks are C functions, except for the length of text. A value that fails its check follows the rule of its
    type. `type` accepts everything.
    """
    limit = config.max_chars
    short_ascii: Callable[[str], object] = (
        str.isascii if limit is None else lambda text: len(text) <= limit and text.isascii()
    )
    return {
        NoneType: type,
        bool: type,
        int: WORD.__contains__,
        float: math.isfinite,
        str: short_ascii,
    }
