"""What was converted: counts by field, place inside the value, type and rule.

The places form a tree, which a conversion descends together with the value. So counting costs one look-up, and paths
are built only when the report is read. The tree is bounded: keys beyond `CHILDREN` at one place are counted as `*`,
places beyond `PLACES` in one field as `**`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from verl_rollout_dump.serialization.outcomes import FAILED, STRINGIFIED, UNKNOWN_MARKER, UNKNOWN_TEXT
from verl_rollout_dump.serialization.rule import Node, Rule, Tally
from verl_rollout_dump.serialization.values import JsonValue

_FIELDS = 1024  # fields of a report

# Rules of which each type is warned about by itself.
_BY_TYPE = {rule.name for rule in (FAILED, STRINGIFIED, UNKNOWN_MARKER, UNKNOWN_TEXT)}


@dataclass(frozen=True)
class ConversionWarning:
    """A warning about one field and one rule: the values that are read back differ from those that were returned."""

    field: str
    rule: str
    # Where the first example was, "" for the value itself, and the types that the rule met.
    path: str
    types: tuple[str, ...]
    count: int
    first_record: int
    message: str

    @property
    def key(self) -> tuple[str, ...]:
        """The identity of this kind of warning."""
        return (self.field, self.rule, *(self.types if self.rule in _BY_TYPE else ()))


class ConversionReport:
    """The counts of one step, or of many once merged. Not safe to share between threads without a lock."""

    def __init__(self) -> None:
        self._fields: dict[str, Node] = {}

    def __bool__(self) -> bool:
        return any(True for _ in self._tallies())

    def field(self, name: str) -> Node:
        """Return the place that stands for the values of a field themselves."""
        node = self._fields.get(name)
        if node is None:
            if len(self._fields) >= _FIELDS:
                name = "*"
            node = self._fields.setdefault(name, Node("", []))
        return node

    def merge(self, other: ConversionReport, first_record: int = 0) -> None:
        """Add the counts of another report; the example that came first stays.

        `first_record` is the number that the other report's record 0 has in this one.
        """
        for name, node in other._fields.items():
            _absorb(self.field(name), node, first_record)

    def as_list(self) -> list[dict[str, JsonValue]]:
        """Return the counts as plain JSON: field, path, type, rule, lossy, count, first_record; in stable order."""
        return [
            {
                "field": field,
                "path": path,
                "type": type_name,
                "rule": rule.name,
                "lossy": rule.lossy,
                "count": tally.count,
                "first_record": tally.first_record,
            }
            for field, path, type_name, rule, tally in self._tallies()
        ]

    def warnings(self) -> list[ConversionWarning]:
        """Return a warning for every conversion that loses something.

        There is one warning per field and rule, and per type if the type is the problem (it has no rule, or became
        text). `warning.key` identifies the kind of warning.
        """
        groups: dict[tuple[str, str, str], tuple[Rule, list[tuple[str, str, Tally]]]] = {}
        for field, path, type_name, rule, tally in self._tallies():
            if rule.lossy:
                key = (field, rule.name, type_name if rule.name in _BY_TYPE else "")
                groups.setdefault(key, (rule, []))[1].append((path, type_name, tally))
        return [_describe(field, rule, cases) for (field, _, _), (rule, cases) in groups.items()]

    def _tallies(self) -> Iterator[tuple[str, str, str, Rule, Tally]]:
        """Yield field, path, type name, rule and tally, sorted; equal paths are added up."""
        rows: dict[tuple[str, str, str, str], tuple[Rule, Tally]] = {}
        for field, root in self._fields.items():
            for node in root.places:
                for kind, tally in node.tallies.items():
                    key = (field, node.path, kind.type_name, kind.rule.name)
                    total = rows.setdefault(key, (kind.rule, Tally(tally.first_record)))[1]
                    total.count += tally.count
        for (field, path, type_name, _), (rule, tally) in sorted(rows.items(), key=lambda row: row[0]):
            yield field, path, type_name, rule, tally


def _absorb(node: Node, other: Node, first_record: int) -> None:
    """Add the tallies of another tree, whose records begin at a number of this one's, to this tree."""
    pairs = [(node, other)]
    seen = set()
    while pairs:
        node, other = pairs.pop()
        if id(other) in seen:
            continue
        seen.add(id(other))
        for kind, tally in other.tallies.items():
            node.tally(kind, tally.first_record + first_record).count += tally.count
        pairs.extend((node.grow(key), child) for key, child in other.children.items())


def _describe(field: str, rule: Rule, cases: list[tuple[str, str, Tally]]) -> ConversionWarning:
    """Return the warning for all cases of a rule in a field."""
    path, _, first = min(cases, key=lambda case: case[2].first_record)
    types = tuple(sorted({type_name for _, type_name, _ in cases}))
    count = sum(tally.count for _, _, tally in cases)
    places = len({place for place, _, _ in cases})
    where = f" at {path}" if path else ""
    where += f" and {places - 1} other places" if places > 1 else ""
    message = (
        f"field {field!r}{where}: {count} x {', '.join(types)}, first in record {first.first_record}: "
        f"written as {rule.output} ({rule.name}). Instead, {rule.instead}."
    )
    return ConversionWarning(field, rule.name, path, types, count, first.first_record, message)
