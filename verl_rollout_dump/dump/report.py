"""What a dump did, in plain counts: written, converted, dropped, failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

_Add = Callable[[Iterable[int]], int]


def _largest(counts: Iterable[int]) -> int:
    return max(counts, default=0)


def _add_records(values: list[Any], add: _Add) -> Any:
    return sum(values)


def _add_steps(values: list[Any], add: _Add) -> Any:
    return add(values)


def _join_steps(values: list[list[Any]], add: _Add) -> list[Any]:
    return DumpReport.joined_steps(values)


def _add_kinds(values: list[dict[str, int]], add: _Add) -> dict[str, int]:
    kinds = dict.fromkeys(kind for counts in values for kind in counts)
    return {kind: add(counts[kind] for counts in values if kind in counts) for kind in kinds}


def _add_conversions(values: list[list[dict[str, Any]]], add: _Add) -> list[dict[str, Any]]:
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for entry in (entry for conversions in values for entry in conversions):
        key = tuple(value for name, value in entry.items() if name not in ("count", "first_record"))
        known = merged.setdefault(key, {**entry, "count": 0})
        known["count"] += entry["count"]
        known["first_record"] = min(known["first_record"], entry["first_record"])
    return [merged[key] for key in sorted(merged, key=str)]


def _join_types(values: list[dict[str, list[str]]], add: _Add) -> dict[str, list[str]]:
    names = dict.fromkeys(name for types in values for name in types)
    return {name: sorted({kind for types in values for kind in types.get(name, ())}) for name in names}


def _step_order(step: Any) -> tuple[bool, Any]:
    return isinstance(step, str), step


# How reports are merged: what a field counts.
_STEPS = {"merge": _add_steps}
_RECORDS = {"merge": _add_records}
_STEP_NUMBERS = {"merge": _join_steps}
_KINDS = {"merge": _add_kinds}
_CONVERSIONS = {"merge": _add_conversions}
_TYPES = {"merge": _join_types}
MIXED = "mixed types"  # in `fields`: the columns that hold several JSON types


@dataclass
class DumpReport:
    """The counts of one attempt, over all its steps. A copy: it does not change when read."""

    # Steps whose file is in place, and what is in these files.
    steps_written: int = field(default=0, metadata=_STEPS)
    records_written: int = field(default=0, metadata=_RECORDS)
    bytes_written: int = field(default=0, metadata=_RECORDS)
    # Rollouts that are in no file, by reason.
    padding_rows: int = field(default=0, metadata=_RECORDS)
    records_not_sampled: int = field(default=0, metadata=_RECORDS)
    records_dropped: int = field(default=0, metadata=_RECORDS)
    records_failed: int = field(default=0, metadata=_RECORDS)
    # Batches that made no file, by reason. A step that is no number stands as text.
    empty_batches: int = field(default=0, metadata=_STEPS)
    steps_not_sampled: int = field(default=0, metadata=_STEPS)
    steps_dropped: list[Any] = field(default_factory=list, metadata=_STEP_NUMBERS)
    steps_failed: list[Any] = field(default_factory=list, metadata=_STEP_NUMBERS)
    # Fields that did not go through as they were given: what happened -> how many times.
    fields: dict[str, int] = field(default_factory=dict, metadata=_KINDS)
    # Kinds of failure -> how many times; the first message of each kind is in the log.
    failures: dict[str, int] = field(default_factory=dict, metadata=_KINDS)
    # Every kind of conversion: field, path, type, rule, lossy, count, first_record.
    conversions: list[dict[str, Any]] = field(default_factory=list, metadata=_CONVERSIONS)
    # The JSON types that each column has held up to now, null left out.
    column_types: dict[str, list[str]] = field(default_factory=dict, metadata=_TYPES)
    # Steps that are safe on this machine and wait for a remote store.
    steps_waiting_for_store: int = field(default=0, metadata=_STEPS)
    # Seconds that the training thread waited: for room in the queue, and for the file under `on_error: raise`.
    seconds_blocked: float = field(default=0.0, metadata=_RECORDS)

    @property
    def written(self) -> int:
        """Records that are in files."""
        return self.records_written

    @property
    def dropped(self) -> int:
        """Records of batches that found the queue full and were dropped."""
        return self.records_dropped

    @property
    def failed(self) -> int:
        """Records of batches that could not be written."""
        return self.records_failed

    @property
    def converted(self) -> int:
        """Values that were not JSON as they were given."""
        return sum(entry["count"] for entry in self.conversions)

    @classmethod
    def of_splits(cls, reports: Sequence[DumpReport]) -> DumpReport:
        """Merge reports of different steps, such as those of training and validation: everything adds up."""
        return cls._merged(reports, sum)

    @classmethod
    def of_shards(cls, reports: Sequence[DumpReport]) -> DumpReport:
        """Merge the reports of writers that each wrote a part of the same steps: a step counts once."""
        return cls._merged(reports, _largest)

    @staticmethod
    def joined_steps(lists: Sequence[Sequence[Any]]) -> list[Any]:
        """Return the steps of several lists, each once, in rising order; text (an invalid step) comes last."""
        return sorted({step for steps in lists for step in steps}, key=_step_order)

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as plain JSON, for `run.json`."""
        return dict(vars(self))  # not asdict: a report is a copy already, and is written after every step

    @classmethod
    def _merged(cls, reports: Sequence[DumpReport], add: _Add) -> DumpReport:
        values = {one.name: [getattr(report, one.name) for report in reports] for one in fields(cls)}
        merged = cls(**{one.name: one.metadata["merge"](values[one.name], add) for one in fields(cls)})
        mixed = [name for name, types in merged.column_types.items() if len(types) > 1]
        merged.fields |= {f"{name}: {MIXED}": 1 for name in mixed}
        return merged
