"""The table of commands. Adding one: a module with a function, one row here.

The docstring of the function is its help; the modules import what is heavy inside their functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from verl_rollout_dump.cli import (
    check,
    convert,
    diff,
    doctor,
    groups,
    query,
    repair,
    report,
    schema,
    show,
    stats,
    summary,
    tail,
    view,
)
from verl_rollout_dump.cli import ls as listing

_LOOK = "Look"
_VERIFY = "Verify"
_EXPORT = "Export"


class _Command(NamedTuple):
    """A command, and the panel of `--help` that it stands in."""

    name: str
    function: Callable[..., Any]
    panel: str
    settings: Mapping[str, Any] = {}  # of click's context


COMMANDS = (
    _Command("ls", listing.ls, _LOOK),
    _Command("summary", summary.summary, _LOOK),
    _Command("show", show.show, _LOOK),
    _Command("view", view.view, _LOOK),
    _Command("stats", stats.stats, _LOOK),
    _Command("tail", tail.tail, _LOOK),
    _Command("groups", groups.groups, _LOOK),
    _Command("diff", diff.diff, _LOOK),
    _Command("check", check.check, _VERIFY),
    _Command("repair", repair.repair, _VERIFY),
    # the flags of Hydra go through: --config-name, -m
    _Command("doctor", doctor.doctor, _VERIFY, {"ignore_unknown_options": True}),
    _Command("schema", schema.schema, _VERIFY),
    _Command("query", query.query, _EXPORT),
    _Command("convert", convert.convert, _EXPORT),
    _Command("report", report.report, _EXPORT),
)
