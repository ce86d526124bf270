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

LOOK = "Look"
VERIFY = "Verify"
EXPORT = "Export"


class Command(NamedTuple):
    """A command, and the panel of `--help` that it stands in."""

    name: str
    function: Callable[..., Any]
    panel: str
    settings: Mapping[str, Any] = {}  # of click's context


COMMANDS = (
    Command("ls", listing.ls, LOOK),
    Command("summary", summary.summary, LOOK),
    Command("show", show.show, LOOK),
    Command("view", view.view, LOOK),
    Command("stats", stats.stats, LOOK),
    Command("tail", tail.tail, LOOK),
    Command("groups", groups.groups, LOOK),
    Command("diff", diff.diff, LOOK),
    Command("check", check.check, VERIFY),
    Command("repair", repair.repair, VERIFY),
    # the flags of Hydra go through: --config-name, -m
    Command("doctor", doctor.doctor, VERIFY, {"ignore_unknown_options": True}),
    Command("schema", schema.schema, VERIFY),
    Command("query", query.query, EXPORT),
    Command("convert", convert.convert, EXPORT),
    Command("report", report.report, EXPORT),
)
