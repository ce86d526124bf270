"""The types that JSON has, subclasses included: None, bool, int, float, str, list, tuple, dict.

Values are read through the built-in base class (`dict.items(value)`), because a subclass may override its methods.
"""

from __future__ import annotations

import sys
from typing import Any

import orjson

from verl_rollout_dump.serialization import markers, outcomes
from verl_rollout_dump.serialization.rule import Context, Node
from verl_rollout_dump.serialization.type_names import type_name
from verl_rollout_dump.serialization.values import JsonValue

# The integers that orjson writes, and those within the range of a double.
WORD = range(-(2**63), 2**64)
_DOUBLE = range(-int(sys.float_info.max), int(sys.float_info.max) + 1)


def unchanged(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return None, True or False."""
    return value  # type: ignore[no-any-return]


def integer(context: Context, value: int, node: Node, depth: int) -> JsonValue:
    """Return an integer of any size: exact digits up to the range of a double (ijl/orjson#301), otherwise a marker."""
    number = int.__int__(value)
    if number in WORD:
        return number
    if number in _DOUBLE:
        context.note(outcomes.WIDE_INTEGER, type_name(type(value)), node)
        return orjson.Fragment(str(number))
    context.note(outcomes.HUGE_INTEGER, type_name(type(value)), node)
    return markers.integer_marker(number)


def floating(context: Context, value: float, node: Node, depth: int) -> JsonValue:
    """Return a double."""
    return context.number(float.__float__(value), type_name(type(value)), node)


def text(context: Context, value: str, node: Node, depth: int) -> JsonValue:
    """Return text."""
    return context.text(str.__str__(value), type_name(type(value)), node)


def array(context: Context, value: list[Any], node: Node, depth: int) -> JsonValue:
    """Return a list."""
    return context.items(list.copy(value), node, depth)


def array_of_tuple(context: Context, value: tuple[Any, ...], node: Node, depth: int) -> JsonValue:
    """Return a tuple, named ones included, as a list."""
    return context.items(list(tuple.__iter__(value)), node, depth)


def mapping(context: Context, value: dict[Any, Any], node: Node, depth: int) -> JsonValue:
    """Return a dict."""
    return context.pairs(dict.items(value), node, depth)


def list_extent(value: list[Any]) -> dict[str, JsonValue]:
    """Return the length of a list."""
    return {"length": list.__len__(value)}


def tuple_extent(value: tuple[Any, ...]) -> dict[str, JsonValue]:
    """Return the length of a tuple."""
    return {"length": tuple.__len__(value)}


def mapping_extent(value: dict[Any, Any]) -> dict[str, JsonValue]:
    """Return the length of a dict."""
    return {"length": dict.__len__(value)}
