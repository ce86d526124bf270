"""The columns of the list of records: index, score, and what the user chooses, each of one width for all records."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len, set_cell_size

from verl_rollout_dump.analysis.formatting import json_text, one_line
from verl_rollout_dump.reader import Record
from verl_rollout_dump.reader.field_names import ABSENT, FieldNames, look_up
from verl_rollout_dump.viewer.lines import ListLine, RecordLine

LENGTH = "length"
SCORE_WIDTH = 8
_NARROWEST, _WIDEST = 8, 20
_NO_WIDTH = ("Mn", "Me", "Cf")  # Unicode's categories of combining marks and of invisible characters


def columns_of(text: str) -> tuple[str, ...]:
    """Return the names that a user typed, separated by commas."""
    return tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))


@dataclass(frozen=True)
class ListLayout:
    """The columns of a list: the width of the index, the bounds of the scores, the names of the chosen columns."""

    index_width: int = 3
    bounds: tuple[float, float] = (0.0, 0.0)
    columns: tuple[str, ...] = (LENGTH,)

    def heading(self) -> str:
        """Return the line above the list."""
        names = "".join(f" {_to_the_right(fitted(name, _width(name)), _width(name))}" for name in self.columns)
        return f"  {'#':>{self.index_width}} {'score':>{SCORE_WIDTH}}{names} response"

    def cells(self, record: Record, fields: FieldNames) -> str:
        """Return the chosen columns of a record, each with a space before it."""
        return "".join(f" {_cell(_value(record, name, fields), _width(name))}" for name in self.columns)


def index_width_of(lines: Sequence[ListLine]) -> int:
    """Return the width that all indexes of a list fit in."""
    return max(3, len(str(max((line.index for line in lines if isinstance(line, RecordLine)), default=0))))


def number_text(value: float, width: int) -> str:
    """Return a number with as many digits as fit in a width; it is rounded, never cut."""
    if isinstance(value, int) and len(str(value)) <= width:
        return str(value)
    shown = [f"{value:.{digits}g}" for digits in (5, 4, 3, 2, 1)]
    return next((text for text in shown if len(text) <= width), shown[-1])


def fitted(text: str, width: int) -> str:
    """Return a text that is at most some cells wide, wide characters counted as two."""
    return text if cell_len(text) <= width else f"{set_cell_size(text, width - 1)}…"


def straight(text: str) -> str:
    """Return a text without characters of no width: terminals disagree on them, and lines would not be equally wide."""
    return text if text.isascii() else "".join(c for c in text if unicodedata.category(c) not in _NO_WIDTH)


def _to_the_right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text


def _width(name: str) -> int:
    return 6 if name == LENGTH else min(_WIDEST, max(_NARROWEST, cell_len(name)))


def _value(record: Record, name: str, fields: FieldNames) -> Any:
    """Return what a column shows of a record; `ABSENT` if it has no such field."""
    own = look_up(record, (name,))
    if own is ABSENT and name == LENGTH:
        return len(fields.text(record, "response"))
    return look_up(record, tuple(name.split("."))) if own is ABSENT else own


def _cell(value: Any, width: int) -> str:
    """Return a value in a cell, to the right."""
    if value is ABSENT or value is None:
        return " " * width
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{number_text(value, width):>{width}}"
    text = straight(value[: 4 * width] if isinstance(value, str) else json_text(value))
    return _to_the_right(fitted(one_line(text, width), width), width)
