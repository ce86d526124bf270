"""Finds the rule of a type under a config: once per type, then by look-up."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from verl_rollout_dump.config.schema import NonFinite, SerializationConfig, Strategy, Unknown
from verl_rollout_dump.serialization import keys, lists, object_types, outcomes, stdlib_types
from verl_rollout_dump.serialization.registration import listen, load_entry_points, registered_rule
from verl_rollout_dump.serialization.rule import Context, Converter, Entry, Node, Rule, kind_of
from verl_rollout_dump.serialization.table import NATIVE, RULE_OF
from verl_rollout_dump.serialization.text import non_finite_text
from verl_rollout_dump.serialization.type_names import package_name, type_name
from verl_rollout_dump.serialization.values import JsonValue

# Bounds the memory if a program creates classes without end.
_KNOWN_TYPES = 10_000

_UNKNOWN: dict[str, tuple[Rule, Converter]] = {
    "marker": (outcomes.UNKNOWN_MARKER, object_types.unknown_marker),
    "str": (outcomes.UNKNOWN_TEXT, object_types.unknown_text),
    "error": (outcomes.UNKNOWN_MARKER, object_types.unknown_error),
}
_NON_FINITE: dict[str, tuple[Rule | None, Callable[[float], JsonValue]]] = {
    "null": (outcomes.NON_FINITE_NULL, lambda number: None),
    "string": (outcomes.NON_FINITE_STRING, non_finite_text),
    "error": (None, non_finite_text),
}


class Rulebook:
    """The rules under one config, and the entries of the types met so far."""

    def __init__(self, config: SerializationConfig) -> None:
        strategy = Strategy(config.strategy).value
        self.config = config
        self.plain = lists.plain_checks(config)
        self.whole = _WHOLE_LISTS[strategy]
        self.key_text = _KEY_TEXT[strategy]
        self.new_entry = _ENTRIES[strategy]
        self.non_finite = _NON_FINITE[NonFinite(config.non_finite).value]
        self.unknown = _UNKNOWN[Unknown(config.unknown).value]
        self.raises_unknown = Unknown(config.unknown) is Unknown.error
        self.entries: dict[type[Any], Entry] = {}
        load_entry_points()
        listen(self)

    def forget_types(self) -> None:
        """Look the rules of all types up again: a rule was registered."""
        self.entries.clear()

    def learn(self, kind: type[Any]) -> Entry:
        """Return the entry of a type that is met for the first time."""
        if len(self.entries) >= _KNOWN_TYPES:
            self.entries.clear()
        entry = self.entries[kind] = self.new_entry(self, kind)
        return entry

    def suspect(self, kind: type[Any]) -> Entry:
        """Return the entry of a type that cannot be looked up: only its name is known."""
        return entry(kind, outcomes.FAILED, object_types.unknown_marker, outcomes.FAILED)


def _entry_of_type(book: Rulebook, kind: type[Any]) -> Entry:
    """Return the entry under early_convert: the rule of the type, or what `unknown` says."""
    found = find_rule(kind)
    if found is None:
        found, convert = book.unknown
    else:
        assert found.convert is not None
        convert = found.convert
    return entry(kind, found, convert, found)


def _entry_as_text(book: Rulebook, kind: type[Any]) -> Entry:
    """Return the entry under str_fallback: types that JSON has are native, all others become text.

    A type without a rule is refused if `unknown` is `error`.
    """
    found = find_rule(kind)
    if found is not None and _is_registered(kind, found):
        return _entry_of_type(book, kind)
    native = next((NATIVE[name] for name in _names(kind) if name in NATIVE), None)
    if native is not None:
        assert native.convert is not None
        return entry(kind, native, native.convert, native)
    if found is None and book.raises_unknown:
        return entry(kind, outcomes.UNKNOWN_MARKER, object_types.unknown_error, outcomes.UNKNOWN_MARKER)
    return entry(
        kind, outcomes.STRINGIFIED, _text_converter(found or outcomes.UNKNOWN_TEXT), found or outcomes.UNKNOWN_TEXT
    )


def _text_converter(found: Rule) -> Converter:
    """Return the conversion of a value to its complete text, as the rule of its type defines it."""

    text = _text_in_full if found.text is str and (found.nests or found is outcomes.UNKNOWN_TEXT) else found.text

    def convert(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
        return context.stringified(text, value, type_name(type(value)), node)

    return convert


def _text_in_full(value: Any) -> str:
    """Return the text of an object; arrays of numpy in it are not cut in the middle (huggingface/datasets#8583)."""
    with np.printoptions(threshold=sys.maxsize):
        return str(value)


def entry(kind: type[Any], followed: Rule, convert: Converter, found: Rule) -> Entry:
    """Return the entry of a type that follows a rule; the rule `found` for the type gives its extent.

    An exact type that JSON has is not counted; a subclass of it changes its type, and is counted.
    """
    name = type_name(kind)
    return Entry(
        type_name=name,
        rule=followed,
        convert=convert,
        key=kind_of(name, followed),
        leaf=followed.leaf,
        nests=found.nests,
        counted=followed.counted or package_name(kind) not in NATIVE,
        extent=found.extent or stdlib_types.nothing,
    )


_ENTRIES = {Strategy.early_convert.value: _entry_of_type, Strategy.str_fallback.value: _entry_as_text}
_KEY_TEXT = {Strategy.early_convert.value: keys.spelled_by_rules, Strategy.str_fallback.value: keys.spelled_by_str}
_WHOLE_LISTS = {Strategy.early_convert.value: lists.WITH_NUMPY, Strategy.str_fallback.value: lists.WITH_DOUBLES}


# The base classes and the attributes of a class, read without its metaclass.
_BASES = type.__dict__["__mro__"].__get__
_NAMESPACE = type.__dict__["__dict__"].__get__

# Types that are recognised by an attribute of their class.
_MARKS = {
    "_is_tensorclass": "marked.tensorclass",
    "__attrs_attrs__": "marked.attrs",
    "__dataclass_fields__": "marked.dataclass",
    "__struct_fields__": "marked.msgspec",
    "__wrapped__": "marked.proxy",
    "__next__": "marked.iterator",
    "__anext__": "marked.iterator",
    "__array__": "marked.array",
    "__dlpack__": "marked.dlpack",
    "to_pylist": "marked.list",
    "tolist": "marked.list",
    "_asdict": "marked.mapping",
    "to_dict": "marked.mapping",
    "keys": "marked.mapping",
}


def find_rule(kind: type[Any]) -> Rule | None:
    """Return the rule of a type, registered or in the table, along its base classes; None if there is none."""
    for base in _BASES(kind):
        found = registered_rule(base) or RULE_OF.get(package_name(base))
        if found is not None:
            return found
    return next((RULE_OF[name] for name in _names(kind) if name in RULE_OF), None)


def _is_registered(kind: type[Any], found: Rule) -> bool:
    """Return whether a rule that was found for a type is a user's own."""
    return any(registered_rule(base) is found for base in _BASES(kind))


def _names(kind: type[Any]) -> Iterator[str]:
    """Yield the names by which a rule may know a type: those of its base classes, then its marks.

    Neither isinstance() nor a method of the type is called: both may be overridden, and raise.
    """
    bases = _BASES(kind)
    yield from map(package_name, bases)
    for mark, name in _MARKS.items():
        if any(mark in _NAMESPACE(base) for base in bases):
            yield name
