"""Columns whose type drifts: a number on one record, text or an object on another.

They are written as they are, since that is what was returned; but readers that give one type to a column (pyarrow,
Polars, databases) refuse such a file, so it is said once. Whole numbers beside floats, and nulls, are no drift.
"""

from __future__ import annotations

from verl_rollout_dump.fields import FieldNotes
from verl_rollout_dump.snapshot import ConvertedStep, ValuesField

# What readers take for one type. Markers and digits that orjson cannot write (Fragment) are left out.
JSON_TYPES = {bool: "true/false", int: "number", float: "number", str: "text", list: "array", dict: "object"}


def note_drift(step: ConvertedStep, notes: FieldNotes) -> None:
    """Note each column of a step that holds several JSON types."""
    for field in step.fields:
        if isinstance(field, ValuesField):
            kinds = sorted({JSON_TYPES[found] for found in set(map(type, field.values)) & JSON_TYPES.keys()})
            if len(kinds) > 1:
                notes.note(
                    "mixed types",
                    field.name,
                    f"step {step.step}: the column {field.name!r} holds {', '.join(kinds)}; it is written as it "
                    f"is, but tools that give one type to a column refuse it. Return one type, or leave it out: "
                    f"rollout_dump.fields.exclude=[{field.name}]",
                )
