"""The meaning of the names, comparisons and functions of an expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from verl_rollout_dump.reader.field_names import ABSENT, look_up

Record = Mapping[str, Any]
Term = Callable[[Record], Any]


def field(path: tuple[str, ...]) -> Term:
    """Return a function that looks a field up: as one key with its dots, else part by part; None if it is absent."""

    def read(record: Record) -> Any:
        value = look_up(record, path)
        return None if value is ABSENT else value

    return read


def length(term: Term) -> Term:
    """Return a function for the length of a text, list or object; None for anything else."""

    def measure(record: Record) -> Any:
        value = term(record)
        return len(value) if isinstance(value, (str, list, Mapping)) else None

    return measure


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return an order that is false for values that cannot be ordered."""

    def holds(left: Any, right: Any) -> bool:
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        texts = isinstance(left, str) and isinstance(right, str)
        return (numbers or texts) and compare(left, right)

    return holds


def _contains(left: Any, right: Any) -> bool:
    """Return whether a text contains a text, a list an item, an object a key."""
    if isinstance(left, str):
        return isinstance(right, str) and right in left
    if isinstance(left, Mapping):
        return isinstance(right, str) and right in left
    return isinstance(left, list) and right in left


def _starts_with(left: Any, right: Any) -> bool:
    """Return whether a text starts with a text."""
    return isinstance(left, str) and isinstance(right, str) and left.startswith(right)


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: bool(left == right),
    "=": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": _ordered(lambda left, right: bool(left < right)),
    "<=": _ordered(lambda left, right: bool(left <= right)),
    ">": _ordered(lambda left, right: bool(left > right)),
    ">=": _ordered(lambda left, right: bool(left >= right)),
    "contains": _contains,
    "startswith": _starts_with,
    "in": lambda left, right: isinstance(right, (list, str)) and _contains(right, left),
}
CONSTANTS: dict[str, Any] = {"true": True, "false": False, "null": None}
