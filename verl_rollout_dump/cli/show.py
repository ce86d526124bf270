"""`show`: print records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Annotated

import typer

from verl_rollout_dump.analysis.formatting import LONGEST_SHOWN
from verl_rollout_dump.analysis.selection import Selection, select_steps
from verl_rollout_dump.analysis.stats import why_no_scores
from verl_rollout_dump.cli.arguments import WORKERS, AsJson, Directory, Steps, Where
from verl_rollout_dump.cli.opening import opened_dump
from verl_rollout_dump.cli.output import console, print_json
from verl_rollout_dump.cli.progress import progress_bar
from verl_rollout_dump.cli.records import record_panel
from verl_rollout_dump.reader import Dump, DumpReadError, FieldNames, Row
from verl_rollout_dump.reader.field_names import DEFAULT_FIELDS

_USUAL_LIMIT = 10
WORTH_COUNTING = 64 << 20  # bytes; a larger dump is not read to its end only to count its records


_Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", "-n", min=1, help=f"The largest number of records; default {_USUAL_LIMIT}, all with --json."
    ),
]


def show(
    directory: Directory,
    step: Steps = None,
    index: Annotated[int | None, typer.Option("--index", "-i", min=0, help="The record of the step, from 0.")] = None,
    uid: Annotated[str | None, typer.Option(help="Records whose uid starts with this text.")] = None,
    worst: Annotated[int | None, typer.Option(min=1, metavar="N", help="The N lowest scores.")] = None,
    best: Annotated[int | None, typer.Option(min=1, metavar="N", help="The N highest scores.")] = None,
    random: Annotated[int | None, typer.Option(min=1, metavar="N", help="N random records.")] = None,
    where: Where = None,
    limit: _Limit = None,
    full: Annotated[
        bool, typer.Option("--full", help=f"Print whole texts instead of {LONGEST_SHOWN} characters.")
    ] = False,
    as_json: AsJson = False,
    fields: FieldNames = DEFAULT_FIELDS,
) -> None:
    """Show records: prompt, response, ground truth, score, extras.

    Control characters are shown as escapes. With --json each record is one line, as in the file, with its place. A
    limit that leaves records out is reported on standard error. Exit code 1: no record matches.

    Examples:

    - `verl-rollout-dump show DIR --step last --worst 5`
    - `verl-rollout-dump show DIR --step 7 --index 3 --full`
    - `verl-rollout-dump show DIR --where 'score < 0.2 and acc == false' --random 5`
    - `verl-rollout-dump show DIR --where 'output contains "wait" and len(output) > 4000' --json`
    """
    chosen = [value for value in (worst, best, random) if value is not None]
    if len(chosen) + (index is not None) > 1:
        raise DumpReadError("--index, --worst, --best and --random exclude each other; give one of them")
    with opened_dump(directory, fields) as dump:
        if worst or best:
            _require_scores(dump)
        steps = select_steps(dump, step if step or index is None else "last")
        selection = Selection(steps, index, uid, worst, best, random, where)
        print_row = _print_row_as_json if as_json else _row_printer(None if full else LONGEST_SHOWN, dump.fields)
        rows = selection.rows(dump)
        shown = _print_rows(islice(rows, limit or (None if as_json or chosen else _USUAL_LIMIT)), print_row)
        _report_limit(shown, rows, is_small=where is not None or uid is not None or dump.size < WORTH_COUNTING)


def _require_scores(dump: Dump) -> None:
    """Build the index with a progress bar. Raises `DumpReadError` if no record has a score to order by."""
    with progress_bar("indexing", dump.size) as advance:
        dump.make_index(WORKERS, advance)
    if why := why_no_scores(dump):
        raise DumpReadError(why)


def _print_row_as_json(row: Row) -> None:
    """Print a record with its place as one line of JSON."""
    print_json({"step": row.step, "index": row.index, "file": str(row.path), "record": row.record})


def _row_printer(longest: int | None, fields: FieldNames) -> Callable[[Row], None]:
    """Return a function that prints a record; `longest` bounds the characters of a text."""
    out = console()
    return lambda row: out.print(record_panel(row, longest, fields))


def _print_rows(rows: Iterable[Row], print_row: Callable[[Row], None]) -> int:
    """Print records one by one and return their number; exit with code 1 if there are none."""
    count = 0
    for row in rows:
        count += 1
        print_row(row)
    if not count:
        typer.echo("verl-rollout-dump: no record is as asked for", err=True)
        raise typer.Exit(1)
    return count


def _report_limit(shown: int, rest: Iterator[Row], is_small: bool) -> None:
    """Report on standard error how many records were left out; for a large dump only that there are more.

    `is_small` states that the rest can be read to count it.
    """
    if next(rest, None) is None:
        return
    total = f"{shown} of {shown + 1 + sum(1 for _ in rest)}" if is_small else f"the first {shown}"
    typer.echo(f"verl-rollout-dump: {total} shown; --limit N shows more", err=True)
