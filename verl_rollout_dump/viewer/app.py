"""The viewer: what the keys do."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.binding import BindingType
from textual.widgets import Input

from verl_rollout_dump.analysis.formatting import json_text
from verl_rollout_dump.analysis.where import WhereError, parse_where
from verl_rollout_dump.viewer.browser import RecordBrowser
from verl_rollout_dump.viewer.help_screen import BINDINGS, HelpScreen
from verl_rollout_dump.viewer.line_list import LineList
from verl_rollout_dump.viewer.rendering import record_text
from verl_rollout_dump.viewer.source import ViewerSource, first_of_group, next_order, records_from

_PROMPTS = {"search": "search in prompts and responses", "filter": "filter, such as: score < 0.2 and acc == false"}


class ViewerApp(RecordBrowser):
    """Browses one dump."""

    BINDINGS: ClassVar[list[BindingType]] = BINDINGS

    def __init__(self, source: ViewerSource) -> None:
        super().__init__(source)
        self._asked = "search"

    def action_step(self, distance: int) -> None:
        """Go to another step."""
        self.step_list.cursor += distance

    def action_group(self, direction: int) -> None:
        """Go to the first record of the next or previous group."""
        self.record_list.cursor = first_of_group(self.lines, self.record_list.cursor, direction)

    def action_sort(self) -> None:
        """Sort in the next order."""
        self.order = next_order(self.order)
        self.load_lines(0)

    def action_mark(self) -> None:
        """Mark the record, to compare it with another one."""
        if self.lines:
            self.marked = (self.step, self.current_index)
            self.record_list.redraw()

    def action_compare(self) -> None:
        """Show or hide the marked record beside this one."""
        if self.marked is None:
            self.notify("Mark a record first: m")
            return
        step, index = self.marked
        title = f"◆ step {step}, index {index}"
        self.marked_pane.show(record_text(self.source.record(step, index), title, self.needle, self.source.dump.fields))
        self.marked_pane.display = not self.marked_pane.display

    def action_copy_response(self) -> None:
        """Copy the response to the clipboard."""
        if self.lines:
            self.copy_to_clipboard(
                self.source.dump.fields.text(self.source.record(self.step, self.current_index), "response")
            )
            self.notify("The response is copied")

    def action_copy_record(self) -> None:
        """Copy the record to the clipboard, as JSON."""
        if self.lines:
            self.copy_to_clipboard(json_text(self.source.record(self.step, self.current_index)))
            self.notify("The record is copied")

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(HelpScreen())

    # Search and filter.

    def action_ask(self, what: str) -> None:
        """Ask for a text to search for, or a filter."""
        self._asked = what
        self.question.placeholder = _PROMPTS[what]
        self.question.value = self.needle if what == "search" else self.filter_text
        self.question.display = True
        self.question.focus()

    def action_leave_input(self) -> None:
        """Close the input without an answer."""
        self.question.display = False
        self.record_list.focus()

    @on(Input.Submitted, "#question")
    def take_answer(self, answer: Input.Submitted) -> None:
        """Search or filter by the answer; a mistake is shown and can be corrected."""
        text = answer.value.strip()
        if self._asked == "search":
            self.needle = text
            self.action_leave_input()
            self.action_find(0)
            return
        try:
            parse_where(text) if text else None
        except WhereError as error:
            self.notify(Text(str(error)).plain, severity="error", markup=False)
            return
        self.filter_text = text
        self.action_leave_input()
        self.load_lines(0)

    def action_find(self, direction: int) -> None:
        """Go to the next (1) or previous (-1) record that holds the text; 0: this one counts too."""
        if self.needle and self.lines:
            self.find(direction)
        self._show_status()

    @work(thread=True, exclusive=True, group="find")
    def find(self, direction: int) -> None:
        """Search for the text from the cursor on, and continue at the start of the list."""
        start = self.record_list.cursor
        places = records_from(self.lines, start, direction)
        found = next(self.source.find(self.step, list(places), self.needle), None)
        self.call_from_thread(self._show_found, None if found is None else places[found])

    def _show_found(self, line: int | None) -> None:
        if line is None:
            self.notify(f"No record of step {self.step} holds it", markup=False)
        elif line == self.record_list.cursor:
            self.show_record(LineList.Moved(self.record_list, line))
        else:
            self.record_list.cursor = line

    # Following.

    def action_follow(self) -> None:
        """Start or stop following the training."""
        self.is_following = not self.is_following
        self._show_status()
