"""What a rule is, and what it works with: the place of a value in the report, and the conversion around it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

from verl_rollout_dump.config.schema import SerializationConfig
from verl_rollout_dump.serialization.values import ConversionError, JsonValue

_PLACES = 512  # places in a field
_CHILDREN = 64  # keys at a place
_KINDS = 64  # kinds at a place
_KEY_CHARS = 60  # characters of a key in a path

# (context, value, place in the report, depth) -> JSON-ready value. The depth counts the containers around the value,
# and the value itself if its rule nests.
Converter: TypeAlias = "Callable[[Context, Any, Node, int], JsonValue]"
# value -> what a marker states about it: {"length": 3} or {"shape": [2, 3], "dtype": "float32"}.
_Extent: TypeAlias = Callable[[Any], "dict[str, JsonValue]"]


@dataclass(frozen=True, eq=False)
class Rule:
    """One row of the table of conversions."""

    # The name under which the report counts it.
    name: str
    # What is written, for the documentation and the warnings.
    output: str
    # A Python expression; the documentation shows its result, and a test computes it again.
    example: str
    # The types that follow it, as `package.Name`, subclasses included; empty for an outcome, which any type may have.
    types: tuple[str, ...] = ()
    convert: Converter | None = None
    # What to return or to configure instead. A rule with such advice changes the value, and causes a warning.
    instead: str = ""
    # Whether the values are containers, which count as a level and may contain themselves.
    nests: bool = False
    # Whether it is counted; types that JSON has are not.
    counted: bool = True
    # A C function that does the same, for speed.
    leaf: Callable[[Any], JsonValue] | None = None
    extent: _Extent | None = None
    # The whole text of a value under str_fallback, if str() would leave something out or order it at random.
    text: Callable[[Any], str] = str

    @property
    def lossy(self) -> bool:
        """Whether the value that is read back differs from what the reward function returned."""
        return bool(self.instead)


@dataclass(frozen=True, eq=False, slots=True)
class _Kind:
    """What is counted at a place: a rule applied to a type. Compared by identity, which is fast."""

    type_name: str
    rule: Rule


@lru_cache(maxsize=16_384)
def kind_of(type_name: str, rule: Rule) -> _Kind:
    """Return the one `_Kind` of a type and a rule."""
    return _Kind(type_name, rule)


class Tally:
    """A count, and the first record that was counted."""

    __slots__ = ("count", "first_record")

    def __init__(self, first_record: int) -> None:
        self.count = 0
        self.first_record = first_record


class Node:
    """A place in the values of a field, with its tallies."""

    __slots__ = ("children", "path", "places", "tallies")

    def __init__(self, path: str, places: list[Node]) -> None:
        self.path = path
        # Every place of the field, this one included; the last beyond the bound stands for all others.
        self.places = places
        # By key; None: the items of a list.
        self.children: dict[str | None, Node] = {}
        self.tallies: dict[_Kind, Tally] = {}
        places.append(self)

    def grow(self, key: str | None) -> Node:
        """Return the place of a key, or of the items of a list (None), below this one, and create it if necessary."""
        child = self.children.get(key)
        if child is None and key is not None and len(self.children) >= _CHILDREN:
            key = "*"
            child = self.children.get(key)
        if child is None:
            child = self.children[key] = self.place(key)
        return child

    def place(self, key: str | None) -> Node:
        """Return a new place below this one, or the one that stands for all further places."""
        if len(self.places) < _PLACES:
            return Node(self.path + _step(key, self.path), self.places)
        if len(self.places) == _PLACES:
            Node("**", self.places)
        return self.places[-1]

    def tally(self, kind: _Kind, record: int) -> Tally:
        """Return the tally of a kind, and create it if necessary."""
        tally = self.tallies.get(kind)
        if tally is None:
            if len(self.tallies) >= _KINDS:
                kind = kind_of("*", kind.rule)
            tally = self.tallies.setdefault(kind, Tally(record))
        return tally

    def count(self, kind: _Kind, record: int, count: int) -> None:
        """Count a number of values, the first of which is in `record`; records may come in any order."""
        tally = self.tally(kind, record)
        tally.count += count
        tally.first_record = min(tally.first_record, record)


def _step(key: str | None, path: str) -> str:
    """Return what a key, or the items of a list, add to a path."""
    if key is None:
        return "[]"
    key = key if len(key) <= _KEY_CHARS else f"{key[:_KEY_CHARS]}…"
    return f".{key}" if path else key


@dataclass(frozen=True, eq=False, slots=True)
class Entry:
    """The name of a type, the rule that it follows, and how it is converted."""

    type_name: str
    rule: Rule
    convert: Converter
    # What it is counted as.
    key: _Kind
    # A C function that does the whole conversion.
    leaf: Callable[[Any], JsonValue] | None
    nests: bool
    counted: bool
    extent: _Extent

    def elements(self, value: Any) -> int:
        """Return how many elements a container has."""
        extent: dict[str, Any] = self.extent(value)
        return math.prod(extent["shape"]) if "shape" in extent else int(extent.get("length", 0))


class Context(Protocol):
    """What a rule may ask of the conversion that applies it (`conversion.Conversion`)."""

    record: int
    max_depth: int
    max_elements: int | None
    # Of each exact type that JSON has: the check after which a value is taken as it is.
    plain: dict[type[Any], Callable[[Any], object]]
    # Of each exact type: how a list of it is converted as a whole, or None if that list does not allow it.
    whole: dict[type[Any], Callable[..., list[Any] | None]]

    @property
    def config(self) -> SerializationConfig:
        """The config of the conversion."""

    def value(self, value: Any, node: Node, depth: int) -> JsonValue:
        """Return any value as JSON-ready."""

    def convert(self, value: Any, node: Node, depth: int) -> JsonValue:
        """Return a value by the rule of its type."""

    def pairs(self, pairs: Iterable[tuple[Any, Any]], node: Node, depth: int) -> JsonValue:
        """Return an object of keys and values; `depth` is that of the object itself."""

    def items(self, items: list[Any], node: Node, depth: int) -> JsonValue:
        """Return an array; `depth` is that of the array itself."""

    def here(self, place: int) -> int:
        """Return the number of the current record, for any place in a list."""

    def note(self, happened: Rule, name: str, node: Node, count: int = 1) -> None:
        """Count an outcome of a value of the type `name`."""

    def non_finite(self, number: float, name: str, node: Node) -> JsonValue:
        """Return what stands for NaN or an infinity."""

    def number(self, number: float, name: str, node: Node) -> JsonValue:
        """Return a float."""

    def text(self, text: str, name: str, node: Node) -> JsonValue:
        """Return text that is valid as UTF-8 and not longer than allowed."""

    def data(self, data: bytes, name: str, node: Node) -> JsonValue:
        """Return bytes under their marker."""

    def key_text(self, key: Any, node: Node) -> str:
        """Return the text of a key that is not an exact `str`, as the strategy spells it."""

    def entry_of(self, kind: type[Any]) -> Entry:
        """Return what is known of a type."""

    def too_deep(self, value: Any, node: Node) -> JsonValue:
        """Return the marker of a container or an array that is nested too deep."""

    def unknown(self, value: Any, node: Node, depth: int) -> JsonValue:
        """Return a value without a rule as the config says (`unknown`)."""

    def not_written(self, value: Any, reason: str, facts: dict[str, JsonValue], node: Node) -> JsonValue:
        """Return the marker of a value whose content is not written."""

    def stringified(self, text: Callable[[Any], str], value: Any, name: str, node: Node) -> JsonValue:
        """Return the text of a value as `text` gives it, made safe."""

    def error(self, node: Node, name: str, problem: str, instead: str) -> ConversionError:
        """Return the error for a value that the config does not accept."""
