"""Which fields allow only one reading of their texts, after a look at all of them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from verl_rollout_dump.analysis.check.checks import types_of_fields
from verl_rollout_dump.analysis.check.observation import observe_files
from verl_rollout_dump.analysis.stringified import READ_BACK, TEXT_BOOLEAN, TEXT_NUMBER, TEXT_TENSOR, reading_of
from verl_rollout_dump.reader import Dump
from verl_rollout_dump.reader.parallel import OnProgress, for_files, ignore_progress

# what texts of a field look like -> the other types that may stand beside them
ONLY_READING: dict[str, frozenset[str]] = {
    TEXT_NUMBER: frozenset(("null", "number")),
    TEXT_BOOLEAN: frozenset(("null", "boolean")),
    TEXT_TENSOR: frozenset(("null", "number", "list", TEXT_NUMBER)),
}


@dataclass
class RepairPlan:
    """What to read back: field (dots, `[]`) -> what its texts look like."""

    fields: dict[str, str] = field(default_factory=dict)

    def apply(self, path: str, value: Any, changes: Counter[str]) -> Any:
        """Return a value as it should have been written, and count what was changed."""
        if isinstance(value, dict):
            return {name: self.apply(f"{path}.{name}" if path else name, item, changes) for name, item in value.items()}
        if isinstance(value, list):
            return [self.apply(f"{path}[]", item, changes) for item in value]
        if isinstance(value, float) and not math.isfinite(value):
            changes[f"NaN or Infinity to null: {path}"] += 1
            return None
        if isinstance(value, str) and path in self.fields:
            return self._read_back(path, value, changes)
        return value

    def _read_back(self, path: str, text: str, changes: Counter[str]) -> Any:
        reading = reading_of(text)
        if reading not in READ_BACK:
            return text
        try:
            value = READ_BACK[reading](text)
        except ValueError:
            changes[f"left as text, not whole: {path}"] += 1
            return text
        changes[f"{reading.removeprefix('text_')} read back from text: {path}"] += 1
        return value


def plan_repair(dump: Dump, workers: int = 1, on_progress: OnProgress = ignore_progress) -> RepairPlan:
    """Read a dump through and find the fields to read back. `on_progress` gets bytes done."""
    seen = [file for some in for_files(observe_files, dump.files, workers, on_progress) for file in some]
    types = types_of_fields(seen)
    return RepairPlan({path: kind for path, counts in types.items() if (kind := only_reading(counts))})


def only_reading(counts: Counter[str]) -> str | None:
    """Return what the texts of a field look like, where all its values allow that reading; else None."""
    for kind in (TEXT_TENSOR, TEXT_BOOLEAN, TEXT_NUMBER):
        if counts[kind]:
            return kind if counts.keys() - {kind} <= ONLY_READING[kind] else None
    return None
