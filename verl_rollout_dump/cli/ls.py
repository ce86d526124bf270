"""`ls`: list dumps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from verl_rollout_dump.analysis.diff import mean_scores
from verl_rollout_dump.analysis.formatting import figure, one_line, printable, readable_size, sparkline
from verl_rollout_dump.cli.arguments import WORKERS, AsJson
from verl_rollout_dump.cli.opening import opened_dump
from verl_rollout_dump.cli.output import print_json
from verl_rollout_dump.cli.progress import progress_bar
from verl_rollout_dump.cli.tables import Cell, TableColumn, print_table, text_column
from verl_rollout_dump.reader import Dump, DumpReadError, EmptyDumpError
from verl_rollout_dump.reader.discovery import differing, find_dumps, overrides_of, short_overrides
from verl_rollout_dump.storage.run_state import end_of_run
from verl_rollout_dump.storage.steps import format_steps

_COLUMNS = (
    text_column("dump"),
    TableColumn("steps", expendable=1, justify="left"),
    TableColumn("records", expendable=4),
    TableColumn("size", expendable=5),
    text_column("state", expendable=2),
    TableColumn("last score"),
    TableColumn("score", expendable=3, justify="left"),
    text_column("overrides", narrowest=24),
)


def ls(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A dump, or a folder with dumps in it.")],
    as_json: AsJson = False,
) -> None:
    """List dumps: steps, records, size, state, mean score. A folder of a Hydra multirun gives one row per job.

    The last columns show the score over the steps, and the overrides in which the jobs differ.

    Examples:

    - `verl-rollout-dump ls outputs/rollouts`
    - `verl-rollout-dump ls multirun/2026-01-01/12-00-00`
    """
    found = find_dumps(directory)
    overrides = differing([overrides_of(path, directory) for path in found])
    rows = [{**_row_of(path), "overrides": own} for path, own in zip(found, overrides, strict=True)]
    if as_json:
        print_json(rows)
        return
    _print_table(rows, directory)


def _row_of(path: Path) -> dict[str, Any]:
    """Return the row of one dump; a folder with only a `run.json` has no steps yet."""
    try:
        return _row_of_dump(path)
    except EmptyDumpError:
        state = end_of_run(path) or "empty"
        return {"path": str(path), "steps": "", "records": 0, "bytes": 0, "state": state, "score": None, "scores": []}


def _row_of_dump(path: Path) -> dict[str, Any]:
    """Return the row of a dump with step files. Raises `EmptyDumpError`."""
    with opened_dump(path) as dump, progress_bar(f"indexing {path.name}", dump.size) as advance:
        dump.make_index(WORKERS, advance)
        steps = dump.steps
        scores = list(mean_scores(dump).values())
        records = len(dump)
    known = [score for score in scores if score is not None]
    return {
        "path": str(path),
        "steps": format_steps(steps),
        "records": records,
        "bytes": dump.size,
        "state": _state_of(dump),
        "score": known[-1] if known else None,
        "scores": scores,
    }


def _state_of(dump: Dump) -> str:
    """Return the state of the run from `run.json`, or how it ended if it was killed."""
    try:
        return end_of_run(dump.path) or str((dump.run or {}).get("state", "no run.json"))
    except DumpReadError:
        return "broken run.json"


def _print_table(rows: list[dict[str, Any]], root: Path) -> None:
    """Print one row per dump."""
    overrides = short_overrides([row["overrides"] for row in rows])
    print_table(_COLUMNS, [_cells(row, root, own) for row, own in zip(rows, overrides, strict=True)])


def _cells(row: dict[str, Any], root: Path, overrides: list[str]) -> list[Cell]:
    """Return the cells of a row."""
    path = Path(row["path"])
    return [
        Text(printable(str(path.relative_to(root)) if path != root else str(path))),
        one_line(row["steps"], 24),
        str(row["records"]),
        readable_size(row["bytes"]),
        one_line(row["state"], 120),
        figure(row["score"]),
        sparkline(row["scores"], 20),
        Text(printable(" ".join(overrides), None)),
    ]
