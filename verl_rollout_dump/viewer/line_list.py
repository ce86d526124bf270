"""A list of any length that renders only the lines on the screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

_LineText = Callable[[int, int], Text]  # (number of the line, width in cells) -> the line


class LineList(ScrollView, can_focus=True):
    """Lines with a cursor. `line_text` renders a line when it is shown."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False, tooltip="move up in a list or in the record"),
        Binding("down,j", "move(1)", "down", show=False, tooltip="move down in a list or in the record"),
        Binding("pageup", "move_page(-1)", "page up", show=False, tooltip="move up by a page"),
        Binding("pagedown", "move_page(1)", "page down", show=False, tooltip="move down by a page"),
        Binding("home,g", "to_start", "first", show=False, tooltip="go to the start"),
        Binding("end,G", "to_end", "last", show=False, tooltip="go to the end"),
    ]
    DEFAULT_CSS = """
    LineList { background: $surface; scrollbar-size-vertical: 1; overflow-x: hidden; }
    LineList > .line-list--cursor { background: $panel-lighten-2; }
    LineList:focus > .line-list--cursor { background: $primary; color: $text; text-style: bold; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"line-list--cursor"}
    cursor: reactive[int] = reactive(0)

    class Moved(Message):
        """The cursor has moved to another line."""

        def __init__(self, line_list: LineList, line: int) -> None:
            super().__init__()
            self.line_list = line_list
            self.line = line

        @property
        def control(self) -> LineList:
            """The list, for `@on(LineList.Moved, "#id")`."""
            return self.line_list

    def __init__(self, line_text: _LineText, id: str) -> None:
        super().__init__(id=id)
        self._line_text = line_text
        self._count = 0

    @property
    def count(self) -> int:
        """The number of lines."""
        return self._count

    def show_lines(self, count: int, cursor: int = 0) -> None:
        """Show other lines, with the cursor on one of them; posts `Moved` even if its number is the same."""
        self._count = count
        self.virtual_size = Size(self.size.width, count)
        self.set_reactive(LineList.cursor, max(0, min(cursor, count - 1)))
        self.refresh()
        self._show_cursor()
        self.post_message(self.Moved(self, self.cursor))

    def redraw(self) -> None:
        """Render the lines on the screen again."""
        self.refresh()

    def validate_cursor(self, cursor: int) -> int:
        """Keep the cursor on a line."""
        return max(0, min(cursor, self._count - 1))

    def watch_cursor(self, before: int, after: int) -> None:
        """Show the cursor's new place, and post `Moved`."""
        self.refresh()
        self._show_cursor()
        if before != after:
            self.post_message(self.Moved(self, after))

    def render_line(self, y: int) -> Strip:
        """Render a line of the screen."""
        number = self.scroll_offset.y + y
        width = self.size.width
        if number >= self._count:
            return Strip.blank(width, self.rich_style)
        text = self._line_text(number, width)
        text.truncate(width, overflow="ellipsis", pad=True)
        text.no_wrap = True
        strip = Strip(text.render(self.app.console, end=""), width).adjust_cell_length(width)
        is_cursor = number == self.cursor
        return strip.apply_style(self.get_component_rich_style("line-list--cursor") if is_cursor else self.rich_style)

    def on_resize(self, event: events.Resize) -> None:
        """Fit the lines to the new width."""
        self.virtual_size = Size(event.size.width, self._count)
        self._show_cursor()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse is."""
        line = self.scroll_offset.y + event.y
        if line < self._count:
            self.cursor = line

    def action_move(self, distance: int) -> None:
        """Move the cursor by lines."""
        self.cursor += distance

    def action_move_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.cursor += pages * max(1, self.size.height - 1)

    def action_to_start(self) -> None:
        """Move the cursor to the first line."""
        self.cursor = 0

    def action_to_end(self) -> None:
        """Move the cursor to the last line."""
        self.cursor = self._count - 1

    def _show_cursor(self) -> None:
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True)
