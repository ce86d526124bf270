"""The keys of the viewer, and the help that is made from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from verl_rollout_dump.viewer.line_list import LineList
from verl_rollout_dump.viewer.lines import ORDERS

BINDINGS: list[BindingType] = [
    Binding("question_mark", "help", "help", tooltip="show this help"),
    Binding("slash", "ask('search')", "search", tooltip="search in the prompts and responses of all steps"),
    Binding("n", "find(1)", "next", show=False, tooltip="go to the next record that has the text"),
    Binding("N", "find(-1)", "previous", show=False, tooltip="go to the previous record that has the text"),
    Binding("f", "ask('filter')", "filter", tooltip="filter: score < 0.2 and acc == false (an empty filter shows all)"),
    Binding(
        "escape",
        "clear",
        "clear",
        show=False,
        key_display="esc",
        tooltip="leave the input; end the search and the filter",
    ),
    Binding("s", "sort", "sort", tooltip=f"sort by the next order: {', '.join(ORDERS)}"),
    Binding("e", "ask('columns')", "columns", show=False, tooltip="choose the columns of the list: length, any extra"),
    Binding("less_than_sign,comma", "step(-1)", "step", show=False, tooltip="go to the previous step"),
    Binding("greater_than_sign,full_stop", "step(1)", "step", show=False, tooltip="go to the next step"),
    Binding("left_square_bracket", "group(-1)", "group", show=False, tooltip="go to the previous group"),
    Binding("right_square_bracket", "group(1)", "group", show=False, tooltip="go to the next group"),
    Binding("z", "zoom", "zoom", tooltip="give the part with the focus the whole screen, and back"),
    Binding("m", "mark", "mark", tooltip="mark the record"),
    Binding(
        "c",
        "compare",
        "diff",
        tooltip="compare the marked record with this one: side by side, with the words that differ",
    ),
    Binding("y", "copy_response", "copy", show=False, tooltip="copy the response"),
    Binding("Y", "copy_record", "copy record", show=False, tooltip="copy the whole record as JSON"),
    Binding("F", "follow", "follow", tooltip="follow: go to new steps as they appear"),
    Binding("q", "quit", "quit", tooltip="quit"),
    Binding("ctrl+c", "quit", "quit", show=False, priority=True, tooltip="quit"),
]


def help_rows(app: App[Any], bindings: Sequence[BindingType]) -> list[tuple[str, str]]:
    """Return what the help shows, made from the bindings: the keys of an action, and what it does."""
    rows: dict[str, list[str]] = {}
    for binding in Binding.make_bindings(bindings):
        rows.setdefault(binding.tooltip or binding.description, []).append(app.get_key_display(binding))
    return [("  ".join(keys), action) for action, keys in rows.items()]


class HelpScreen(ModalScreen[None]):
    """Shows the keys and what they do."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "close", "close")]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen VerticalScroll { width: 90%; max-width: 110; height: auto; max-height: 90%; border: round $primary;
        background: $surface; padding: 1 2; }
    """

    def compose(self) -> ComposeResult:
        """Make the table of keys."""
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for keys, action in help_rows(self.app, [*LineList.BINDINGS, *BINDINGS]):
            table.add_row(Text(keys, style="bold cyan"), Text(action))
        with VerticalScroll():
            yield Static(table)

    def action_close(self) -> None:
        """Close the help."""
        self.app.pop_screen()
