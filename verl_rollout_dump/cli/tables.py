"""Tables that fit the terminal: columns are left out before a number is cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from verl_rollout_dump.cli.output import console

_BORDER = 3  # characters that each column takes beside its content: a line, a space on either side
Cell = str | Text


class TableColumn(NamedTuple):
    """A column of a table, by default of numbers or other short texts that are never cut or folded.

    A column with `narrowest` holds text that may shrink to so many characters and is then folded. In a narrow terminal
    the columns with the highest `expendable` are left out first; those with 0 never are.
    """

    heading: str
    expendable: int = 0
    justify: Literal["left", "right"] = "right"
    narrowest: int | None = None


def text_column(heading: str, expendable: int = 0, narrowest: int = 16) -> TableColumn:
    """Return a column of text that may be folded."""
    return TableColumn(heading, expendable, "left", narrowest)


def print_table(columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], title: str | None = None) -> None:
    """Print a table on standard output; a line below it names the columns that the terminal is too narrow for."""
    out = console()
    widths = [_width(column, [row[place] for row in rows]) for place, column in enumerate(columns)]
    shown = _fitting(columns, widths, out.width)
    table = Table(title=title)
    for place in shown:
        column = columns[place]
        is_whole = column.narrowest is None
        table.add_column(
            column.heading, justify=column.justify, no_wrap=is_whole, overflow="fold", min_width=widths[place]
        )
    for row in rows:
        table.add_row(*(row[place] for place in shown))
    out.print(table)
    left_out = [column.heading for place, column in enumerate(columns) if place not in shown]
    if left_out:
        out.print(f"Not shown in {out.width} columns: {', '.join(left_out)}", soft_wrap=True)


def _width(column: TableColumn, cells: Sequence[Cell]) -> int:
    """Return the smallest number of characters in which a column can be shown."""
    longest = max(cell_len(str(cell)) for cell in (column.heading, *cells))
    return longest if column.narrowest is None else max(min(longest, column.narrowest), cell_len(column.heading))


def _fitting(columns: Sequence[TableColumn], widths: Sequence[int], width: int) -> list[int]:
    """Return the places of the columns that fit into a width."""
    shown = list(range(len(columns)))
    while sum(widths[place] + _BORDER for place in shown) + 1 > width:
        expendable = max(shown, key=lambda place: columns[place].expendable)
        if not columns[expendable].expendable:
            break
        shown.remove(expendable)
    return shown
