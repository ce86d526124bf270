"""Keys of objects, which are text in JSON (danforthcenter/plantcv#1938, python/cpython#119984).

A key that is not text is converted like a value and then written as text: 2, 0.5, true and null as in JSON, a tuple as
in Python, anything else as its JSON text. A key that occurs already gets a suffix: `1`, `1__2`, `1__3`.
A key of text is never cut, whatever `max_chars` says.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

import numpy as np
import orjson

from verl_rollout_dump.serialization import markers, outcomes
from verl_rollout_dump.serialization.rule import Context, Node
from verl_rollout_dump.serialization.text import non_finite_text, repair_text, without_addresses
from verl_rollout_dump.serialization.type_names import type_name
from verl_rollout_dump.serialization.values import JsonValue

# What Python's repr() and JSON agree on closely enough to spell a tuple.
_SPELLED = (type(None), bool, int, float, str)


def name(context: Context, key: Any, taken: dict[str, JsonValue], node: Node) -> str:
    """Return the text of a key, other than those `taken` in the same object."""
    kind = type(key)
    if kind is str:
        text = repair_text(key)
        if text is not key:
            context.note(outcomes.SURROGATE, "str", node)
    else:
        context.note(outcomes.KEY_TEXT, type_name(kind), node)
        text = context.key_text(key, node)
    if text not in taken:
        return text
    context.note(outcomes.KEY_COLLISION, type_name(kind), node)
    number = 2
    while f"{text}__{number}" in taken:
        number += 1
    return f"{text}__{number}"


def escaped(context: Context, pairs: dict[str, JsonValue], node: Node) -> JsonValue:
    """Return an object of one key, escaped where it could be taken for a marker."""
    ((key, value),) = pairs.items()
    free = markers.escape_reserved(key)
    if free == key:
        return pairs
    context.note(outcomes.RESERVED_KEY, "str", node)
    return {free: value}


def spelled_by_rules(context: Context, key: Any, node: Node) -> str:
    """Return the text of a key that is no exact `str`, by the rules for values."""
    if issubclass(type(key), str):
        return repair_text(str.__str__(key))
    if issubclass(type(key), tuple):
        return _spelled_tuple(context, key, node)
    if issubclass(type(key), Enum):
        return spelled_by_rules(context, key._value_, node)
    number = _as_float(key)
    if not math.isfinite(number):
        return _repr_of_non_finite(context, number, key, node)
    value = context.convert(key, _uncounted(node), 0)
    return value if isinstance(value, str) else _json_text(value)


def _spelled_tuple(context: Context, key: tuple[Any, ...], node: Node) -> str:
    """Return a tuple as Python spells it, its elements converted before."""
    parts = [_spelled_element(context, element, node) for element in tuple.__iter__(key)]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _spelled_element(context: Context, element: Any, node: Node) -> str:
    """Return an element of a tuple as Python spells it."""
    if issubclass(type(element), tuple):
        return _spelled_tuple(context, element, node)
    value = context.value(element, _uncounted(node), 0)
    return repr(value) if type(value) in _SPELLED else _json_text(value)


def spelled_by_str(context: Context, key: Any, node: Node) -> str:
    """Return the text of a key as `json.dumps` spells it, and `str()` of a key that it refuses (str_fallback)."""
    if issubclass(type(key), str | int | float | type(None)):
        return spelled_by_rules(context, key, node)
    if issubclass(type(key), tuple):
        return _spelled_by_python(context, key, node)
    value = context.convert(key, _uncounted(node), 0)
    return value if isinstance(value, str) else _json_text(value)


def _spelled_by_python(context: Context, key: Any, node: Node) -> str:
    """Return `str()` of a key, made safe."""
    try:
        return repair_text(without_addresses(str.__str__(str(key))))
    except Exception:  # an element whose __repr__ raises: its marker says so
        return spelled_by_rules(context, key, node)


def _as_float(key: Any) -> float:
    """Return a key of a float type as `float`, and 0.0 for any other key."""
    return float(key) if issubclass(type(key), float | np.floating) else 0.0


def _repr_of_non_finite(context: Context, number: float, key: Any, node: Node) -> str:
    """Return NaN or an infinity by its name, since a key is text anyway."""
    context.number(number, type_name(type(key)), _uncounted(node))  # raises where the config says so
    return non_finite_text(number)


def _uncounted(node: Node) -> Node:
    """Return a place outside of the report: the conversion of a key is counted once, as a key."""
    return Node(node.path, [])


def _json_text(value: JsonValue) -> str:
    """Return the JSON text of a value."""
    return orjson.dumps(value).decode()
