"""`show`: records, readably."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Annotated

import typer

from verl_rollout_dump.analysis.formatting import LONGEST_SHOWN
from verl_rollout_dump.analysis.selection import Selection, select_steps
from verl_rollout_dump.cli.arguments import WORKERS, AsJson, Directory, Steps, Where
from verl_rollout_dump.cli.opening import opened_dump
from verl_rollout_dump.cli.output import console, print_json
from verl_rollout_dump.cli.progress import progress_bar
from verl_rollout_dump.cli.records import record_panel
from verl_rollout_dump.reader import Dump, DumpReadError, FieldNames, Row
from verl_rollout_dump.reader.field_names import DEFAULT_FIELDS

USUAL_LIMIT = 10


def show(
    directory: Directory,
    step: Steps = None,
    index: Annotated[int | None, typer.Option("--index", "-i", min=0, help="The record of the step, from 0.")] = None,
    uid: Annotated[str | None, typer.Option(help="Records whose uid starts so.")] = None,
    worst: Annotated[int | None, typer.Option(min=1, metavar="N", help="The N lowest scores.")] = None,
    best: Annotated[int | None, typer.Option(min=1, metavar="N", help="The N highest scores.")] = None,
    random: Annotated[int | None, typer.Option(min=1, metavar="N", help="N at random.")] = None,
    where: Where = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = USUAL_LIMIT,
    full: Annotated[bool, typer.Option("--full", help=f"Whole texts, not {LONGEST_SHOWN} characters.")] = False,
    as_json: AsJson = False,
    fields: FieldNames = DEFAULT_FIELDS,
) -> None:
    """Show records: prompt, response, ground truth, score, extras.

    Control characters in them are shown as escapes. With --json each record is one line, as it stands in the file,
    with its place. Exit code 1: no record is as asked for.

    Examples:

    - `verl-rollout-dump show DIR --step last --worst 5`
    - `verl-rollout-dump show DIR --step 7 --index 3 --full`
    - `verl-rollout-dump show DIR --where 'score < 0.2 and acc == false' --random 5`
    - `verl-rollout-dump show DIR --where 'output contains "wait" and len(output) > 4000' --json`
    """
    asked = [name for name, value in (("worst", worst), ("best", best), ("random", random)) if value is not None]
    if len(asked) > 1 or (index is not None and asked):
        raise DumpReadError("--index, --worst, --best and --random exclude each other; give one of them")
    with opened_dump(directory, fields) as dump:
        steps = select_steps(dump, step if step or index is None else "last")
        index_for_scores(dump, worst or best)
        selection = Selection(steps, index, uid, worst, best, random, where)
        wanted = worst or best or random or limit
        print_row = print_row_as_json if as_json else row_printer(None if full else LONGEST_SHOWN, dump.fields)
        print_rows(islice(selection.rows(dump), wanted), print_row)


def index_for_scores(dump: Dump, is_needed: int | None) -> None:
    """Make the index with a progress bar, where records are to be ordered by score."""
    if is_needed:
        with progress_bar("indexing", dump.size) as advance:
            dump.make_index(WORKERS, advance)


def print_row_as_json(row: Row) -> None:
    """Print a record with its place as one line of JSON."""
    print_json({"step": row.step, "index": row.index, "file": str(row.path), "record": row.record})


def row_printer(longest: int | None, fields: FieldNames) -> Callable[[Row], None]:
    """Return what prints a record for people; `longest`: characters of a text."""
    out = console()
    return lambda row: out.print(record_panel(row, longest, fields))


def print_rows(rows: Iterable[Row], print_row: Callable[[Row], None]) -> None:
    """Print records one by one; exit code 1 where there is none."""
    is_found = False
    for row in rows:
        is_found = True
        print_row(row)
    if not is_found:
        typer.echo("verl-rollout-dump: no record is as asked for", err=True)
        raise typer.Exit(1)
