"""Open a dump for a command: check the chosen fields first, report unreadable lines at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from verl_rollout_dump.analysis.known_fields import require_chosen_fields
from verl_rollout_dump.analysis.selected_dump import SelectedDump
from verl_rollout_dump.analysis.selection import EVERYTHING, Selection
from verl_rollout_dump.reader import Dump, FieldNames, NothingFoundError, open_dump
from verl_rollout_dump.reader.field_names import DEFAULT_FIELDS


@contextmanager
def opened_dump(directory: Path, fields: FieldNames = DEFAULT_FIELDS) -> Iterator[Dump]:
    """Open a dump and close it; say on standard error which files were removed and how many lines were unreadable.

    Raises `DumpReadError` if there is nothing to read, or if no record has a chosen field.
    """
    with open_dump(directory, fields) as dump:
        require_chosen_fields(dump)
        try:
            yield dump
        finally:
            report_removed(dump.removed_files)
            report_unreadable(directory, dump.unreadable_lines)


@contextmanager
def opened_selection(directory: Path, fields: FieldNames, selection: Selection) -> Iterator[Dump]:
    """Open the selected records of a dump, or the dump itself if nothing restricts it; see `opened_dump`.

    Raises `NothingFoundError` if no record is selected.
    """
    with opened_dump(directory, fields) as dump:
        if selection == EVERYTHING:
            yield dump
            return
        with SelectedDump(dump, selection) as selected:
            if next(selected.rows(), None) is None:
                raise NothingFoundError("no record is as asked for")
            yield selected


def report_removed(paths: Sequence[Path]) -> None:
    """Print one line on standard error if files were removed while they were read."""
    if paths:
        more = len(paths) - 1
        files = f" and {more} more file{'s' if more > 1 else ''} were" if more else " was"
        records = "their records" if more else "its records"
        told = f"{paths[0]}{files} removed while the dump was read; {records} may be missing here"
        typer.echo(f"verl-rollout-dump: {told}", err=True)


def report_unreadable(directory: Path, count: int) -> None:
    """Print one line on standard error if lines were skipped."""
    if count:
        lines = f"{count} unreadable line{'s were' if count > 1 else ' was'} skipped"
        typer.echo(f"verl-rollout-dump: {lines}; details: verl-rollout-dump check {directory}", err=True)
