"""A record on a terminal."""

from __future__ import annotations

from rich.console import Group
from rich.panel import Panel
from rich.text import Text

from verl_rollout_dump.analysis.formatting import json_text, printable
from verl_rollout_dump.reader import Record, Row
from verl_rollout_dump.reader.field_names import FieldNames

_SHOWN = (("prompt", "prompt"), ("response", "response"), ("ground truth", "ground_truth"), ("score", "score"))


def record_panel(row: Row, longest: int | None, fields: FieldNames) -> Panel:
    """Return a record as text: prompt, response, ground truth, score, extras. `longest` bounds each text."""
    title = Text(f"step {row.step}, index {row.index}  ({printable(row.path.name)})")
    return Panel(Group(*_record_parts(row.record, longest, fields)), title=title, title_align="left")


def _record_parts(record: Record, longest: int | None, fields: FieldNames) -> list[Text]:
    """Return the parts of a record as texts."""
    parts: list[Text] = []
    for label, role in _SHOWN:
        if fields.value(record, role) is not None:
            parts += [Text(label, style="bold cyan"), Text(printable(fields.text(record, role), longest)), Text()]
    extras = {"uid": fields.value(record, "uid"), **fields.extras(record)}
    for name, value in extras.items():
        if value is not None:
            parts.append(Text.assemble((printable(name), "bold"), " = ", printable(json_text(value), longest)))
    return parts
