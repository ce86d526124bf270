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

from verl_rollout_dump.viewer.keys import MEANINGS


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
