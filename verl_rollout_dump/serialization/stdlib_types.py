"""The standard library: containers, times, numbers, bytes, enums, exceptions, and code."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal, localcontext
from typing import Any

import orjson

from verl_rollout_dump.serialization import markers
from verl_rollout_dump.serialization.rule import Context, Node
from verl_rollout_dump.serialization.text import without_addresses
from verl_rollout_dump.serialization.type_names import type_name
from verl_rollout_dump.serialization.values import JsonValue

# A lazy sequence longer than this is not written out: it takes no memory, its list would.
_LONGEST_RANGE = 1_000_000


def sequence(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a deque, an array.array or a view of a dict as a list."""
    return context.items(list(value), node, depth)


def ordered_mapping(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return any other mapping, in its own order."""
    return context.pairs(list(value.items()), node, depth)


def attributes(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return the attributes of a plain namespace."""
    return context.pairs(list(vars(value).items()), node, depth)


def range_of_integers(context: Context, value: range, node: Node, depth: int) -> JsonValue:
    """Return a range as a list; a very long one as a marker with its start, stop and step."""
    if value[_LONGEST_RANGE:]:
        return context.not_written(value, f"more than {_LONGEST_RANGE} elements", {"text": str(value)}, node)
    return context.items(list(value), node, depth)


def unordered(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a set as a sorted list: None, bools, numbers, text, then the rest by its JSON text.

    The order is that of the converted elements, so it does not depend on the hash seed.
    """
    place = node.grow(None)
    return sorted((context.value(item, place, depth) for item in value), key=_sort_key)


def _sort_key(value: JsonValue) -> tuple[int, Any, bytes]:
    """Return the sort key of a converted element of a set; 1 and 1.0 differ only in their JSON text."""
    rank = _RANKS.get(type(value))
    return (4 if rank is None else rank, value if rank in _COMPARED else 0, orjson.dumps(value))


_RANKS: dict[type[Any], int] = {type(None): 0, bool: 1, int: 2, float: 2, str: 3}
_COMPARED = (1, 2, 3)


def set_text(value: Any) -> str:
    """Return the text of a set with sorted elements: the order of `str()` depends on the hash seed."""
    inside = ", ".join(sorted(map(_element_text, value)))
    shown = f"{{{inside}}}" if inside else ""
    if type(value) is set and shown:
        return shown
    return f"{type(value).__name__}({shown})"


def _element_text(value: Any) -> str:
    """Return the text of an element of a set, sets in it sorted too."""
    if type(value) in (set, frozenset):
        return set_text(value)
    if type(value) is tuple:
        return f"({', '.join(map(_element_text, value))}{',' if len(value) == 1 else ''})"
    return repr(value)


def data(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return bytes, a bytearray or a memoryview under the marker of bytes."""
    return context.data(bytes(value), type_name(type(value)), node)


def bytes_text(value: Any) -> str:
    """Return the text of bytes; `str()` of a memoryview gives its address instead of its content."""
    return str(bytes(value) if type(value) is memoryview else value)


def complex_number(context: Context, value: complex, node: Node, depth: int) -> JsonValue:
    """Return a complex number under its marker."""
    name = type_name(type(value))
    return markers.complex_marker(context.number(value.real, name, node), context.number(value.imag, name, node))


def as_text(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return the canonical text of a Decimal, Fraction, UUID, IP address, dtype or device."""
    return context.text(str.__str__(str(value)), type_name(type(value)), node)


def path(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a path as text."""
    return context.value(value.__fspath__(), node, depth)


def moment(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a date, a time or a datetime as ISO 8601, with its offset if it has one."""
    return context.text(str.__str__(value.isoformat()), type_name(type(value)), node)


def duration(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a timedelta as an ISO 8601 duration."""
    return _duration_of_timedelta(value)


def enum_value(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return the value of an enum member."""
    return context.value(value._value_, node, depth)


def exception(context: Context, value: BaseException, node: Node, depth: int) -> JsonValue:
    """Return the type and the message of an exception, and those of the ones a group holds."""
    name = type_name(type(value))
    pairs: list[tuple[str, Any]] = [("type", name), ("message", without_addresses(str(value)))]
    inner = getattr(value, "exceptions", None)
    if isinstance(inner, tuple):
        pairs.append(("exceptions", inner))
    return context.pairs(pairs, node, depth)


def iterator(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return the marker of an iterator: reading it would take its items from the trainer."""
    return markers.marker(type_name(type(value)), "an iterator, which is not consumed", {})


def code(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return the marker of a function, a method, a class or a module, with its name."""
    name = getattr(value, "func", value)
    module, qualified = getattr(name, "__module__", None), getattr(name, "__qualname__", None)
    if not isinstance(qualified, str):
        qualified = str(getattr(name, "__name__", "?"))
    known = f"{module}.{qualified}" if isinstance(module, str) and module != "builtins" else qualified
    return markers.marker(type_name(type(value)), "code, not data", {"name": context.text(known, "str", node)})


def length(value: Any) -> dict[str, JsonValue]:
    """Return the length of anything that has one."""
    return {"length": len(value)}


def nothing(value: Any) -> dict[str, JsonValue]:
    """Return no extent, for a value without a size."""
    return {}


# Units of calendar length have no length in seconds.
_CALENDAR = {"Y": "Y", "M": "M"}
_SECONDS = {
    "W": Decimal(604800),
    "D": Decimal(86400),
    "h": Decimal(3600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("1e-3"),
    "us": Decimal("1e-6"),
    "ns": Decimal("1e-9"),
    "ps": Decimal("1e-12"),
    "fs": Decimal("1e-15"),
    "as": Decimal("1e-18"),
}


def duration_of_unit(count: int, unit: str) -> str:
    """Return a duration of `count` units of numpy (`ns`, `D`, `M`, ...), such as `P1DT2H3.5S`."""
    if unit in _CALENDAR:
        return f"{'-' if count < 0 else ''}P{abs(count)}{_CALENDAR[unit]}"
    with localcontext() as context:
        context.prec = 60
        return _duration_of_seconds(count * _SECONDS[unit])


def _duration_of_timedelta(value: timedelta) -> str:
    """Return the duration of Python's timedelta."""
    microseconds = (value.days * 86400 + value.seconds) * 1_000_000 + value.microseconds
    return duration_of_unit(microseconds, "us")


def _duration_of_seconds(seconds: Decimal) -> str:
    """Return the duration of a number of seconds."""
    sign = "-" if seconds < 0 else ""
    whole_minutes, seconds = divmod(abs(seconds), 60)
    hours, minutes = divmod(int(whole_minutes), 60)
    days, hours = divmod(hours, 24)
    spelled = f"{seconds:f}"
    if "." in spelled:
        spelled = spelled.rstrip("0").rstrip(".")
    clock = "".join(
        f"{amount}{unit}" for amount, unit in ((hours, "H"), (minutes, "M"), (spelled, "S")) if amount not in (0, "0")
    )
    date = f"{days}D" if days else ""
    return f"{sign}P{date}{'T' + clock if clock else ''}" if date or clock else "PT0S"
