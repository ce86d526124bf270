"""`show`: print records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any, NamedTuple

import typer

from verl_rollout_dump.analysis.formatting import LONGEST_SHOWN
from verl_rollout_dump.analysis.selection import EVERYTHING, Selection
from verl_rollout_dump.analysis.stats import why_no_scores
from verl_rollout_dump.cli.arguments import WORKERS, AsJson, Directory
from verl_rollout_dump.cli.brief import brief_lines
from verl_rollout_dump.cli.opening import opened_dump
from verl_rollout_dump.cli.output import console, print_json
from verl_rollout_dump.cli.progress import progress_bar
from verl_rollout_dump.cli.records import record_panel
from verl_rollout_dump.reader import Dump, DumpReadError, FieldNames, NothingFoundError, Row
from verl_rollout_dump.reader.field_names import DEFAULT_FIELDS

WORTH_COUNTING = 64 << 20  # bytes; a larger dump is not read to its end only to count its records


def show(
    directory: Directory,
    selection: Selection = EVERYTHING,
    brief: Annotated[bool, typer.Option("--brief", "-b", help="Print one line a record.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help=f"Print whole texts instead of {LONGEST_SHOWN} characters.")
    ] = False,
    as_json: AsJson = False,
    fields: FieldNames = DEFAULT_FIELDS,
) -> None:
    """Show records: prompt, response, ground truth, score, extras.

    Control characters are shown as escapes. With --json each record is one line, as in the file, with its place.
    Without a limit 10 records are shown, 40 with --brief, all with --json; a limit that leaves records out is reported
    on standard error. Exit code 3: no record matches.

    Examples:

    - `verl-rollout-dump show DIR --step last --worst 5`
    - `verl-rollout-dump show DIR --step 7 --index 3 --full`
    - `verl-rollout-dump show DIR --where 'score < 0.2 and acc == false' --random 5 --brief`
    - `verl-rollout-dump show DIR --grep '(?i)wait' --where 'len(output) > 4000' --json`
    """
    form = _form_of(brief=brief, full=full, as_json=as_json)
    with opened_dump(directory, fields) as dump:
        if selection.is_ranked:
            _require_scores(dump)
        limit = selection.limit if selection.limit is not None or selection.is_chosen else form.limit
        rows = replace(selection, limit=None).rows(dump)
        shown = 0
        for piece in form.pieces(islice(rows, limit), dump.fields):
            form.print_piece(piece)
            shown += 1
        is_small = selection.is_filtered or selection.is_chosen or dump.size < WORTH_COUNTING
        _report_rest(shown, rows, is_small)


class _Form(NamedTuple):
    """A form in which records are printed: the usual limit, what is printed for each record, and how."""

    limit: int | None
    pieces: Callable[[Iterable[Row], FieldNames], Iterator[Any]]
    print_piece: Callable[[Any], None]


def _form_of(**options: bool) -> _Form:
    """Return the form that one of the options asks for. Raises `DumpReadError` if it is more than one."""
    chosen = [name for name, is_given in options.items() if is_given]
    if len(chosen) > 1:
        raise DumpReadError("--brief, --full and --json exclude each other; give one of them")
    return _FORMS[chosen[0] if chosen else "panel"]


def _panels(longest: int | None) -> Callable[[Iterable[Row], FieldNames], Iterator[Any]]:
    """Return a function that makes a panel of each record; `longest` bounds the characters of a text."""
    return lambda rows, fields: (record_panel(row, longest, fields) for row in rows)


def _lines(rows: Iterable[Row], fields: FieldNames) -> Iterator[str]:
    """Return each record as one line of the width of the terminal."""
    return brief_lines(rows, fields, console().width)


def _objects(rows: Iterable[Row], fields: FieldNames) -> Iterator[dict[str, Any]]:
    """Yield each record with its place."""
    for row in rows:
        yield {"step": row.step, "index": row.index, "file": str(row.path), "record": row.record}


_FORMS = {
    "panel": _Form(10, _panels(LONGEST_SHOWN), lambda panel: console().print(panel)),
    "full": _Form(10, _panels(None), lambda panel: console().print(panel)),
    "brief": _Form(40, _lines, typer.echo),
    "as_json": _Form(None, _objects, print_json),
}


def _require_scores(dump: Dump) -> None:
    """Build the index with a progress bar. Raises `DumpReadError` if no record has a score to order by."""
    with progress_bar("indexing", dump.size) as advance:
        dump.make_index(WORKERS, advance)
    if why := why_no_scores(dump):
        raise DumpReadError(why)


def _report_rest(shown: int, rest: Iterator[Row], is_small: bool) -> None:
    """Report on standard error how many records were left out; for a large dump only that there are more.

    `is_small` states that the rest can be read to count it. Raises `NothingFoundError` if there are no records at all.
    """
    if next(rest, None) is None:
        if not shown:
            raise NothingFoundError("no record is as asked for")
        return
    total = f"{shown} of {shown + 1 + sum(1 for _ in rest)}" if is_small else f"the first {shown}"
    typer.echo(f"verl-rollout-dump: {total} shown; --limit N shows more", err=True)
