"""`tail`: the last steps, and new ones."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from verl_rollout_dump.analysis.formatting import figure, percent
from verl_rollout_dump.analysis.stats import COLUMNS, StepStats
from verl_rollout_dump.analysis.stats.collector import collect_files
from verl_rollout_dump.cli.arguments import AsJson, Directory
from verl_rollout_dump.cli.opening import report_removed, report_unreadable
from verl_rollout_dump.cli.output import console, print_json
from verl_rollout_dump.cli.records import record_panel
from verl_rollout_dump.reader import DumpFile, FieldNames, open_dump, read_rows
from verl_rollout_dump.reader.field_names import DEFAULT_FIELDS
from verl_rollout_dump.reader.files import files_if_any

_EXAMPLE_LENGTH = 600  # characters of a text
_NO_SIGNAL = next(column for column in COLUMNS if column.name == "without_signal")
_Content = tuple[Path, int, int]  # of a file: its path, size in bytes, time of change in ns
_QUIET = 2  # looks without a change after which a file counts as written


def tail(
    directory: Directory,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue with new steps; Ctrl-C ends it.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last steps to print first.")] = 10,
    examples: Annotated[
        int, typer.Option("--examples", "-e", min=0, help="How many records of each step to print.")
    ] = 0,
    seconds: Annotated[float, typer.Option(min=0.05, help="Seconds between two looks at the folder.")] = 1.0,
    as_json: AsJson = False,
    fields: FieldNames = DEFAULT_FIELDS,
) -> None:
    """Print the last steps, one line each; with -f continue while the training runs.

    Examples:

    - `verl-rollout-dump tail -f DIR`
    - `verl-rollout-dump tail -f DIR --examples 1`
    - `verl-rollout-dump tail -f DIR --json | jq .score.mean`
    """
    if follow and not directory.exists():
        typer.echo(f"verl-rollout-dump: {directory} does not exist yet; waiting for it (Ctrl-C ends)", err=True)
    is_reported = False
    for files in written_steps(directory, lines, seconds if follow else None):
        found = collect_files(files, fields)
        report_removed([file.path for file in files if not file.path.exists()])
        for figures in found:
            if as_json:
                print_json(figures.as_json())
            else:
                console().print(_step_line(figures), soft_wrap=True)
            _print_examples(files, fields, figures.step, examples)
            if not is_reported:
                report_unreadable(directory, figures.unreadable_lines)
                is_reported = bool(figures.unreadable_lines)


def _step_line(figures: StepStats) -> str:
    """Return a step on one line."""
    score = figures.score
    parts = [
        f"step {figures.step:>6}",
        f"{figures.records} records",
        f"score {figure(score.mean)} ± {figure(score.std)} ({figure(score.min, 2)}…{figure(score.max, 2)})",
        f"length {figure(figures.response_length.mean, 0)}",
        f"empty {percent(figures.empty)}",
    ]
    if signal := _NO_SIGNAL.text(figures):
        parts.append(f"{_NO_SIGNAL.heading} {signal}")
    if figures.unreadable_lines:
        parts.append(f"UNREADABLE LINES {figures.unreadable_lines}")
    return "  ".join(parts)


def _print_examples(files: list[DumpFile], fields: FieldNames, step: int, count: int) -> None:
    """Print the first records of a step, which is in some files."""
    for row in islice(read_rows(files, [step]), count):
        console().print(record_panel(row, _EXAMPLE_LENGTH, fields))


def written_steps(directory: Path, lines: int, seconds: float | None) -> Iterator[list[DumpFile]]:
    """Yield the files of steps: the last existing ones, then (unless `seconds` is None) new ones.

    A new file is yielded when it has not changed between two looks, `seconds` apart: verl's own writer fills it slowly.
    """
    files = open_dump(directory).files if seconds is None else files_if_any(directory)
    is_there = _is_there(directory, True)
    yield from deque(_tasks_by_step(files), maxlen=lines)
    told = set(_by_content(files))
    waiting: dict[_Content, int] = {}
    while seconds is not None:
        time.sleep(seconds)
        is_there = _is_there(directory, is_there)
        new = {content: file for content, file in _by_content(files_if_any(directory)).items() if content not in told}
        waiting = {content: waiting.get(content, 0) + 1 for content in new}
        ready = {content: file for content, file in new.items() if waiting[content] >= _QUIET}
        told |= ready.keys()
        yield from _tasks_by_step(list(ready.values()))


def _is_there(directory: Path, was_there: bool) -> bool:
    """Return whether a folder exists; say on standard error when it begins to be missing."""
    is_there = directory.exists()
    if was_there and not is_there:
        typer.echo(f"verl-rollout-dump: {directory} does not exist; waiting for it (Ctrl-C ends this)", err=True)
    return is_there


def _by_content(files: list[DumpFile]) -> dict[_Content, DumpFile]:
    """Return files with a value that changes with their content; files that were removed meanwhile are left out."""
    found: dict[_Content, DumpFile] = {}
    for file in files:
        try:
            status = file.path.stat()
        except FileNotFoundError:  # superseded or removed since the folder was listed
            continue
        found[file.path, status.st_size, status.st_mtime_ns] = file
    return found


def _tasks_by_step(files: list[DumpFile]) -> list[list[DumpFile]]:
    """Group the files by step, in the order of the files."""
    by_step: dict[int | None, list[DumpFile]] = {}
    for file in files:
        by_step.setdefault(file.step, []).append(file)
    return list(by_step.values())
