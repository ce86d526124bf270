"""One record, with a scrollbar."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static


class RecordPane(VerticalScroll, can_focus=True):
    """Shows a record whose text may be long."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "scroll_up", "up", show=False),
        Binding("j", "scroll_down", "down", show=False),
        Binding("g", "scroll_home", "start", show=False),
        Binding("G", "scroll_end", "end", show=False),
    ]

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._text = Static()

    def compose(self) -> ComposeResult:
        """Compose the widget."""
        yield self._text

    def show(self, text: Text) -> None:
        """Show another text from its start."""
        self._text.update(text)
        self.scroll_home(animate=False)
