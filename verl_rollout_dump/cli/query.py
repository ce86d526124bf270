"""`query`: SQL over a dump."""

from __future__ import annotations

import csv
import sys
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from verl_rollout_dump.analysis.formatting import one_line, printable
from verl_rollout_dump.cli.arguments import WORKERS, AsJson, Directory
from verl_rollout_dump.cli.opening import opened_dump
from verl_rollout_dump.cli.output import console, print_json
from verl_rollout_dump.cli.progress import progress_bar

_ROWS_SHOWN = 100
_LONGEST_CELL = 120  # characters


def query(
    directory: Directory,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A query on the table `rollouts`.")],
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, all rows.")] = False,
    as_json: AsJson = False,
) -> None:
    """Query a dump in SQL (DuckDB). The table is `rollouts`; its columns are the fields of the records.

    Examples:

    - `verl-rollout-dump query DIR 'select step, avg(score) from rollouts group by 1 order by 1'`
    - `verl-rollout-dump query DIR 'select input, avg(score) s from rollouts group by 1 order by s limit 5'`
    - `verl-rollout-dump query DIR 'describe rollouts'`
    """
    from verl_rollout_dump.analysis.query import run_query

    with opened_dump(directory) as dump, progress_bar("reading", dump.size) as advance:
        names, cursor, notes = run_query(dump, sql, WORKERS, advance)
    for note in notes:
        typer.echo(f"verl-rollout-dump: {printable(note)}", err=True)
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in cursor.fetchall()])
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(cursor.fetchall())
    else:
        _print_table(names, cursor)


def _print_table(names: list[str], cursor: Any) -> None:
    """Print the first rows of a result."""
    rows = cursor.fetchmany(_ROWS_SHOWN + 1)
    table = Table()
    for name in names:
        table.add_column(Text(one_line(name, 40)))
    for row in rows[:_ROWS_SHOWN]:
        table.add_row(*(Text("null" if cell is None else one_line(str(cell), _LONGEST_CELL)) for cell in row))
    out = console()
    out.print(table)
    if len(rows) > _ROWS_SHOWN:
        out.print(f"… more than {_ROWS_SHOWN} rows; --csv or --json print all")
