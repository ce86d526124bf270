"""`summary`: the content of a dump, on one screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from verl_rollout_dump.analysis.diff import mean_scores
from verl_rollout_dump.analysis.formatting import LONGEST_SHOWN, figure, readable_size
from verl_rollout_dump.cli.arguments import AsJson, Directory
from verl_rollout_dump.cli.opening import opened_dump
from verl_rollout_dump.cli.output import console, print_json
from verl_rollout_dump.cli.records import record_panel
from verl_rollout_dump.cli.tables import Cell, TableColumn, print_table, text_column
from verl_rollout_dump.reader import Dump, DumpReadError, FieldNames, Row, step_files
from verl_rollout_dump.reader.field_names import DEFAULT_FIELDS
from verl_rollout_dump.reader.parallel import size_of
from verl_rollout_dump.storage.run_state import end_of_run

_STEPS_SHOWN = 40
_COLUMNS = (
    *map(TableColumn, ("step", "records")),
    TableColumn("mean score"),
    TableColumn("size", 1),
    text_column("file"),
)


def summary(directory: Directory, as_json: AsJson = False, fields: FieldNames = DEFAULT_FIELDS) -> None:
    """Print the content of a dump: files, records and mean score per step, and one record.

    Example:

    - `verl-rollout-dump summary outputs/rollouts`
    """
    step_files(directory)  # says what is wrong where there are none
    with opened_dump(directory, fields) as dump:
        if as_json:
            print_json({"path": str(directory), "run": dump.run, "steps": _step_rows(dump)})
            return
        _print_summary(dump, console())


def _step_rows(dump: Dump) -> list[dict[str, Any]]:
    """Return the row of each file."""
    means = mean_scores(dump)
    return [
        {
            "step": file.step,
            "records": len(dump.index_of(file)),
            "score": None if file.step is None else means.get(file.step),
            "bytes": size_of(file),
            "file": str(file.path),
            "unreadable_lines": dump.index_of(file).problem_count,
        }
        for file in dump.files
    ]


def _print_summary(dump: Dump, out: Console) -> None:
    """Print files, records per step, mean score per step and one record. Raises `DumpReadError`."""
    rows = _step_rows(dump)
    cells: list[list[Cell]] = [
        [
            str(row["step"]),
            str(row["records"]),
            figure(row["score"]) or "none",
            readable_size(row["bytes"]),
            Text(Path(row["file"]).name),
        ]
        for row in rows[-_STEPS_SHOWN:]
    ]
    out.print(Text(str(dump.path.absolute())), soft_wrap=True)
    print_table(_COLUMNS, cells)
    _print_state(dump, out)
    out.print(record_panel(_best_of_last_step(dump), LONGEST_SHOWN, dump.fields))
    where = dump.path.absolute()
    out.print(Text(f"Look at it next:  verl-rollout-dump show {where} --step last --worst 5"), soft_wrap=True)
    out.print(Text(f"                  head -n 1 {rows[-1]['file']} | python -m json.tool"), soft_wrap=True)


def _best_of_last_step(dump: Dump) -> Row:
    """Return the record with the highest score of the last step that has one. Raises `DumpReadError`."""
    for file in reversed(dump.files):
        if file.step is not None and len(dump.index_of(file)):
            scores = np.nan_to_num(dump.scores(file.step), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
            index = int(np.argmax(scores))
            return Row(file.step, index, file.path, 0, dump.raw_record(file.step, index))
    raise DumpReadError(f"{dump.path} holds no records: its files are empty")


def _print_state(dump: Dump, out: Console) -> None:
    """Print what `run.json` says about the run: state, attempts, and what was not written as it was given."""
    record = dump.run
    if record is None:
        out.print("No run.json: not written by verl_rollout_dump.")
        return
    report: dict[str, Any] = record.get("report") or {}
    attempts = record.get("attempts") or []
    state = end_of_run(dump.path) or record.get("state")
    out.print(Text(f"State: {state}, attempts: {len(attempts)}"), soft_wrap=True)
    lost = {
        "steps that failed": len(report.get("steps_failed", [])),
        "steps that were dropped": len(report.get("steps_dropped", [])),
        "padding rows left out": report.get("padding_rows", 0),
    }
    for what, count in lost.items():
        if count:
            out.print(f"{what}: {count}")
