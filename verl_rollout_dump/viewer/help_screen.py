"""The keys of the viewer."""

from __future__ import annotations

from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

BINDINGS: list[BindingType] = [
    Binding("question_mark", "help", "help"),
    Binding("slash", "ask('search')", "search"),
    Binding("n", "find(1)", "next", show=False),
    Binding("N", "find(-1)", "previous", show=False),
    Binding("f", "ask('filter')", "filter"),
    Binding("s", "sort", "sort"),
    Binding("less_than_sign,comma", "step(-1)", "step", show=False),
    Binding("greater_than_sign,full_stop", "step(1)", "step", show=False),
    Binding("left_square_bracket", "group(-1)", "group", show=False),
    Binding("right_square_bracket", "group(1)", "group", key_display="[ ]"),
    Binding("m", "mark", "mark"),
    Binding("c", "compare", "compare"),
    Binding("y", "copy_response", "copy"),
    Binding("Y", "copy_record", "copy record", show=False),
    Binding("F", "follow", "follow"),
    Binding("escape", "leave_input", "back", show=False),
    Binding("q", "quit", "quit"),
]

MEANINGS = (
    ("↑ ↓  j k  PgUp PgDn  g G", "move in a list, or in the record"),
    ("tab  shift+tab", "to the next, the previous part"),
    ("< >", "the previous, the next step"),
    ("[ ]", "the previous, the next group"),
    ("/", "search in prompts and responses; n, N: the next, the previous that holds it"),
    ("f", "filter: score < 0.2 and acc == false   (an empty filter shows all)"),
    ("s", "sort: groups, worst first, best first, longest first"),
    ("m", "mark a record; c compares the marked one with this one, side by side"),
    ("y", "copy the response (Y: the whole record as JSON)"),
    ("F", "follow: go to new steps as they come"),
    ("? q", "this help; leave"),
)


class HelpScreen(ModalScreen[None]):
    """Shows the keys; any of them closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "close", "close")]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen VerticalScroll { width: 90%; max-width: 110; height: auto; max-height: 90%; border: round $primary;
        background: $surface; padding: 1 2; }
    """

    def compose(self) -> ComposeResult:
        """Make the list of keys."""
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for keys, meaning in MEANINGS:
            table.add_row(Text(keys, style="bold cyan"), Text(meaning))
        with VerticalScroll():
            yield Static(table)

    def action_close(self) -> None:
        """Close the help."""
        self.app.pop_screen()
