"""Why figures of a step are unknown, with the option that makes them known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from verl_rollout_dump.analysis.stats.figures import StepStats
from verl_rollout_dump.reader import Dump, FieldNames, Record
from verl_rollout_dump.reader.field_names import ABSENT, ROLES

_FIELDS_SHOWN = 12


def why_unknown(fields: FieldNames, role: str, record: Record) -> str:
    """Return why nothing is known about `score`, `response` or `group`, by a record that lacks it."""
    if role == "group":
        names = ", ".join((*ROLES["uid"], *ROLES["prompt"]))
        return f"no field identifies a prompt (looked for {names}); name one with --group or --prompt"
    chosen = fields.chosen.get(role)
    value = fields.find(record, role)
    if value is ABSENT:
        looked_for = chosen or ", ".join(ROLES[role])
        return f"no field is a {role} (looked for {looked_for}); name one with --{role}. Fields: {_listed(record)}"
    return f"the {role} is {_described(value)}, not a number; name another field with --{role}"


def why_no_scores(dump: Dump) -> str | None:
    """Return why no record of a dump has a score; None if one has. Builds the index of all files."""
    if np.isfinite(dump.columns("score")["score"]).any():
        return None
    row = next(dump.rows(), None)
    return None if row is None else f"no score is known: {why_unknown(dump.fields, 'score', row.record)}"


def _described(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object with the keys {_listed(value)}"
    return {str: "text", list: "a list", type(None): "null"}.get(type(value), type(value).__name__)


def _listed(names: Iterable[str]) -> str:
    every = [ascii(name).strip("'") for name in names]
    return ", ".join(every[:_FIELDS_SHOWN]) + (", …" if len(every) > _FIELDS_SHOWN else "")


def unknown_figures(steps: Iterable[StepStats]) -> dict[str, str]:
    """Return role -> why it is unknown, for the roles that are unknown in all steps with records."""
    known = [stats.unknown for stats in steps if stats.records]
    if not known:
        return {}
    return {role: why for role, why in known[-1].items() if all(role in unknown for unknown in known)}
