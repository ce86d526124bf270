"""Find the fields whose texts were values, by an inspection of all their values."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from verl_rollout_dump.analysis.check.checks import types_of_fields
from verl_rollout_dump.analysis.check.observation import observe_files
from verl_rollout_dump.analysis.stringified import READ_BACK, TEXT_BOOLEAN, TEXT_NUMBER, TEXT_TENSOR, text_kind
from verl_rollout_dump.reader import Dump
from verl_rollout_dump.reader.parallel import OnProgress, for_files, ignore_progress

# kind of text -> the other types that the field may have for the texts to be read back
_COMPATIBLE_TYPES: dict[str, frozenset[str]] = {
    TEXT_NUMBER: frozenset(("null", "number")),
    TEXT_BOOLEAN: frozenset(("null", "boolean")),
    TEXT_TENSOR: frozenset(("null", "number", "list", TEXT_NUMBER)),
}


@dataclass
class RepairPlan:
    """The fields to read back: field (dots, `[]`) -> kind of its texts."""

    fields: dict[str, str] = field(default_factory=dict)

    def apply(self, path: str, value: Any, changes: Counter[str]) -> Any:
        """Return a value as it should have been written, and count the changes."""
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
        kind = text_kind(text)
        if kind not in READ_BACK:
            return text
        try:
            value = READ_BACK[kind](text)
        except ValueError:
            changes[f"left as text, incomplete: {path}"] += 1
            return text
        changes[f"{kind.removeprefix('text_')} read back from text: {path}"] += 1
        return value


def plan_repair(dump: Dump, workers: int = 1, on_progress: OnProgress = ignore_progress) -> RepairPlan:
    """Read a whole dump and find the fields to read back."""
    seen = [file for some in for_files(observe_files, dump.files, workers, on_progress) for file in some]
    types = types_of_fields(seen)
    return RepairPlan({path: kind for path, counts in types.items() if (kind := _kind_to_read_back(counts))})


def _kind_to_read_back(counts: Counter[str]) -> str | None:
    """Return the kind to read a field's texts back as, or None if they must stay text."""
    for kind in (TEXT_TENSOR, TEXT_BOOLEAN, TEXT_NUMBER):
        if counts[kind]:
            return kind if counts.keys() - {kind} <= _COMPATIBLE_TYPES[kind] else None
    return None
