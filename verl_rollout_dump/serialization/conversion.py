"""Converts a foreign value to a JSON-ready one, and counts what it converts.

Speed is decided here. A value whose exact type JSON has, and that passes one check in C (`plain`), is used as it is;
lists of one plain type are checked and copied as a whole; everything else costs one look-up of its type. All state is
in the `Conversion`, so several threads may use one serializer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from verl_rollout_dump.config.schema import SerializationConfig
from verl_rollout_dump.serialization import keys, markers, outcomes
from verl_rollout_dump.serialization.rule import Entry, Node, Rule, kind_of
from verl_rollout_dump.serialization.rulebook import Rulebook
from verl_rollout_dump.serialization.text import non_finite_text, repair_text, without_addresses
from verl_rollout_dump.serialization.type_names import type_name
from verl_rollout_dump.serialization.values import ConversionError, JsonValue


class Conversion:
    """One conversion of a value or of a column; `record` is the number of the current row."""

    __slots__ = ("active", "book", "entries", "field", "max_depth", "max_elements", "plain", "record", "whole")

    def __init__(self, book: Rulebook, field: str, record: int = 0) -> None:
        self.book = book
        self.field = field
        self.record = record
        self.plain: dict[type[Any], Callable[[Any], object]] = book.plain
        self.whole = book.whole
        self.entries: dict[type[Any], Entry] = book.entries
        self.max_depth: int = book.config.max_depth
        self.max_elements: int | None = book.config.max_elements
        # The identities of the containers that are being converted. Meeting one of them again is a cycle; the same
        # object twice in one container is not (BerriAI/litellm#31427).
        self.active: set[int] = set()

    def value(self, value: Any, node: Node, depth: int) -> JsonValue:
        """Return any value as JSON-ready."""
        check = self.plain.get(type(value))
        if check is not None and check(value):
            return value  # type: ignore[no-any-return]
        return self.convert(value, node, depth)

    def convert(self, value: Any, node: Node, depth: int) -> JsonValue:
        """Return a value by the rule of its type. A value that raises becomes a marker."""
        entry = self.entries.get(type(value)) or self.book.learn(type(value))
        if entry.counted:
            tally = node.tallies.get(entry.key) or node.tally(entry.key, self.record)
            tally.count += 1
            if self.record < tally.first_record:
                tally.first_record = self.record
        try:
            if entry.leaf is not None:
                return entry.leaf(value)
            if not entry.nests:
                return entry.convert(self, value, node, depth)
            identity = id(value)
            if identity in self.active:
                return self.circular(entry, node)
            if depth >= self.max_depth:
                return self.too_deep(value, node)
            if self.max_elements is not None and entry.elements(value) > self.max_elements:
                reason = f"more than max_elements {self.max_elements}"
                return self.cut(outcomes.TOO_MANY, reason, entry, value, node)
            self.active.add(identity)
            try:
                return entry.convert(self, value, node, depth + 1)
            finally:
                self.active.discard(identity)
        except ConversionError:
            raise
        except Exception as error:
            return self.failed(entry, value, error, node)

    def guarded(self, value: Any, node: Node, depth: int) -> JsonValue:
        """Return a value as JSON-ready, or a marker if even its type raises (a metaclass may, in `hash()`)."""
        try:
            return self.value(value, node, depth)
        except ConversionError:
            raise
        except Exception as error:
            return self.failed(self.book.suspect(type(value)), value, error, node)

    def pairs(self, pairs: Iterable[tuple[Any, Any]], node: Node, depth: int) -> JsonValue:
        """Return an object of keys and values. `depth` is that of the object itself."""
        plain, children = self.plain, node.children
        out: dict[str, JsonValue] = {}
        for key, item in pairs:
            if type(key) is not str or key in out or not key.isascii():
                key = keys.name(self, key, out, node)
            check = plain.get(type(item))
            if check is None or not check(item):
                item = self.convert(item, children.get(key) or node.grow(key), depth)
            out[key] = item
        if len(out) == 1:
            return keys.escaped(self, out, node)
        return out

    def items(self, items: list[Any], node: Node, depth: int) -> JsonValue:
        """Return an array. `items` (an exact list) is not changed; `depth` is that of the array itself."""
        child = node.children.get(None) or node.grow(None)
        kinds = set(map(type, items))
        if len(kinds) == 1:
            whole = self.whole.get(kinds.pop())
            done = whole(self, items, child, self.here) if whole is not None else None
            if done is not None:
                return done
        plain = self.plain
        out: list[JsonValue] = []
        for item in items:
            check = plain.get(type(item))
            if check is None or not check(item):
                item = self.convert(item, child, depth)
            out.append(item)
        return out

    def here(self, place: int) -> int:
        """Return the number of the current record, for any place in a list."""
        return self.record

    def note(self, happened: Rule, name: str, node: Node, count: int = 1) -> None:
        """Count an outcome of a value of a type."""
        node.count(kind_of(name, happened), self.record, count)

    def non_finite(self, number: float, name: str, node: Node) -> JsonValue:
        """Return what stands for NaN or an infinity."""
        happened, written = self.book.non_finite
        if happened is None:
            text = non_finite_text(number)
            raise self.error(node, name, f"{text} is not JSON", outcomes.NON_FINITE_STRING.instead)
        self.note(happened, name, node)
        return written(number)

    def number(self, number: float, name: str, node: Node) -> JsonValue:
        """Return a float."""
        return number if math.isfinite(number) else self.non_finite(number, name, node)

    def text(self, text: str, name: str, node: Node) -> JsonValue:
        """Return text: valid as UTF-8, and not longer than allowed. `text` is an exact `str`."""
        repaired = repair_text(text)
        if repaired is not text:
            self.note(outcomes.SURROGATE, name, node)
        limit = self.book.config.max_chars
        if limit is None or len(repaired) <= limit:
            return repaired
        self.note(outcomes.TOO_LONG, name, node)
        facts: dict[str, JsonValue] = {"length": len(repaired), "text": repaired[:limit]}
        return markers.marker(name, f"longer than max_chars {limit}", facts)

    def data(self, data: bytes, name: str, node: Node) -> JsonValue:
        """Return bytes under their marker, if not longer than allowed."""
        limit = self.book.config.max_chars
        if limit is None or len(data) <= limit:
            return markers.bytes_marker(data)
        self.note(outcomes.TOO_LONG, name, node)
        return markers.marker(name, f"longer than max_chars {limit}", {"length": len(data)})

    def circular(self, entry: Entry, node: Node) -> JsonValue:
        """Return what is written if a value contains itself."""
        self.note(outcomes.CIRCULAR, entry.type_name, node)
        return markers.CIRCULAR

    @property
    def config(self) -> SerializationConfig:
        """The config of the conversion."""
        return self.book.config

    def key_text(self, key: Any, node: Node) -> str:
        """Return the text of a key that is not an exact `str`, as the strategy spells it."""
        return self.book.key_text(self, key, node)

    def entry_of(self, kind: type[Any]) -> Entry:
        """Return what is known of a type."""
        return self.entries.get(kind) or self.book.learn(kind)

    def too_deep(self, value: Any, node: Node) -> JsonValue:
        """Return the marker of a container or an array that is nested too deep."""
        reason = f"nested deeper than max_depth {self.max_depth}"
        return self.cut(outcomes.TOO_DEEP, reason, self.entry_of(type(value)), value, node)

    def cut(self, happened: Rule, reason: str, entry: Entry, value: Any, node: Node) -> JsonValue:
        """Return the marker of a container that is too deep or too large."""
        self.note(happened, entry.type_name, node)
        return markers.marker(entry.type_name, reason, entry.extent(value))

    def failed(self, entry: Entry, value: Any, error: Exception, node: Node) -> JsonValue:
        """Return the marker of a value that raised. The error's text is left out: it may differ from run to run."""
        problem = f"conversion raised {type_name(type(error))}"
        if self.book.raises_unknown:
            raise self.error(node, entry.type_name, problem, outcomes.FAILED.instead) from error
        self.note(outcomes.FAILED, entry.type_name, node)
        return markers.marker(entry.type_name, problem, _known_extent(entry, value))

    def unknown(self, value: Any, node: Node, depth: int) -> JsonValue:
        """Return a value without a rule as the config says (`unknown`)."""
        happened, convert = self.book.unknown
        self.note(happened, type_name(type(value)), node)
        return convert(self, value, node, depth)

    def not_written(self, value: Any, reason: str, facts: dict[str, JsonValue], node: Node) -> JsonValue:
        """Return the marker of a value of a known type whose content is not written."""
        name = type_name(type(value))
        self.note(outcomes.NOT_WRITTEN, name, node)
        return markers.marker(name, reason, facts)

    def stringified(self, text: Callable[[Any], str], value: Any, name: str, node: Node) -> JsonValue:
        """Return the text of a value as `text` gives it, made safe."""
        return self.text(without_addresses(str.__str__(text(value))), name, node)

    def error(self, node: Node, name: str, problem: str, instead: str) -> ConversionError:
        """Return the error for a value that the config does not accept."""
        return ConversionError(self.field, node.path, self.record, name, problem, instead)


def _known_extent(entry: Entry, value: Any) -> dict[str, JsonValue]:
    """Return the extent of a value that raised before; nothing if it raises again."""
    try:
        return entry.extent(value)
    except Exception:
        return {}
