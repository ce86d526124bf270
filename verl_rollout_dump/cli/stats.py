"""`stats`: figures of each step."""

from __future__ import annotations

import csv
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from verl_rollout_dump.analysis.formatting import one_line, sparkline
from verl_rollout_dump.analysis.selection import select_steps
from verl_rollout_dump.analysis.stats import COLUMNS, StepStats, shown_columns, step_stats, unknown_figures
from verl_rollout_dump.cli.arguments import WORKERS, AsJson, Directory, Steps, Workers
from verl_rollout_dump.cli.opening import opened_dump
from verl_rollout_dump.cli.output import console, print_json
from verl_rollout_dump.cli.progress import progress_bar
from verl_rollout_dump.cli.tables import TableColumn, print_table
from verl_rollout_dump.reader import FieldNames
from verl_rollout_dump.reader.field_names import DEFAULT_FIELDS

_STEPS_SHOWN = 40
_NAME_WIDTH, _CURVE_WIDTH, _PADDING = 30, 40, 6  # characters


def stats(
    directory: Directory,
    step: Steps = None,
    every: Annotated[bool, typer.Option("--all", help=f"All steps instead of the last {_STEPS_SHOWN}.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV: one row per step, with every figure.")] = False,
    as_json: AsJson = False,
    workers: Workers = WORKERS,
    fields: FieldNames = DEFAULT_FIELDS,
) -> None:
    """Print the scores, all numeric extras, and the problems of the responses, per step.

    score, std, min, max: of the scores. length: mean length of the responses in characters. empty, doubled, cut: share
    of responses that have no text, equal another one of the step, or reached the length limit (if a field says so).
    no signal: groups (rollouts of one prompt) whose scores are all equal, from which GRPO learns nothing.

    Examples:

    - `verl-rollout-dump stats DIR`
    - `verl-rollout-dump stats DIR --csv > stats.csv`
    - `verl-rollout-dump stats DIR --step 10-20 --json | jq '.[].score.mean'`
    """
    with opened_dump(directory, fields) as dump, progress_bar("reading", dump.size) as advance:
        wanted = set(select_steps(dump, step)) if step else None
        found = list(step_stats(dump, wanted, workers, advance))
    if as_json:
        print_json([figures.as_json() for figures in found])
    elif as_csv:
        _print_csv(found)
    else:
        _print_steps(found if every else found[-_STEPS_SHOWN:], console())
        _print_curves(found, console())


def _print_csv(found: list[StepStats]) -> None:
    """Print all figures as CSV."""
    rows = [figures.as_row() for figures in found]
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _print_steps(found: list[StepStats], out: Console) -> None:
    """Print one row per step."""
    columns = shown_columns(found)
    headings = [TableColumn(column.heading, expendable=column.expendable) for column in columns]
    print_table(headings, [[column.text(figures) for column in columns] for figures in found])
    for role, why in unknown_figures(found).items():
        out.print(Text(f"{role} is blank: {why}"), soft_wrap=True)


def _print_curves(found: list[StepStats], out: Console) -> None:
    """Print the means over the steps as small curves: score, length, groups without signal, and every extra."""
    curves: dict[str, list[float | None]] = {
        column.heading: [column.value(figures) for figures in found] for column in COLUMNS if column.has_curve
    }
    for name in dict.fromkeys(name for figures in found for name in figures.extras):
        curves[name] = [figures.extras[name].mean if name in figures.extras else None for figures in found]
    known = {name: [value for value in values if value is not None] for name, values in curves.items()}
    changes = {name: f"{some[0]:.4g} → {some[-1]:.4g}" for name, some in known.items() if some}
    room = out.width - max(map(len, changes.values()), default=0) - _PADDING
    table = Table(box=None, show_header=False)
    for name, change in changes.items():
        curve = sparkline(curves[name], max(1, min(_CURVE_WIDTH, room // 2)))
        table.add_row(Text(one_line(name, max(1, min(_NAME_WIDTH, room // 2)))), curve, Text(change, no_wrap=True))
    out.print(table)
