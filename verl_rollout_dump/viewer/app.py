"""The viewer: what the keys do."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.binding import BindingType
from textual.widgets import Input
from textual.worker import get_current_worker

from verl_rollout_dump.analysis.formatting import json_text
from verl_rollout_dump.analysis.where import WhereError, parse_where
from verl_rollout_dump.viewer.browser import RecordBrowser
from verl_rollout_dump.viewer.help_screen import BINDINGS, HelpScreen
from verl_rollout_dump.viewer.lines import first_of_group, next_order
from verl_rollout_dump.viewer.list_columns import columns_of
from verl_rollout_dump.viewer.search import Place, SearchHits, steps_from
from verl_rollout_dump.viewer.source import READ_ERRORS, Changes, ViewerSource

_PROMPTS = {
    "search": "search in the prompts and responses of all steps",
    "filter": "filter, such as: score < 0.2 and acc == false",
    "columns": "columns, such as: length, acc, reward.format",
}
_FOLLOW_SECONDS = 2.0


class ViewerApp(RecordBrowser):
    """Browses one dump."""

    BINDINGS: ClassVar[list[BindingType]] = BINDINGS

    def __init__(self, source: ViewerSource) -> None:
        super().__init__(source)
        self._asked = "search"
        self._refresh_problem = ""
        self._answers = {"search": self._search, "filter": self._filter, "columns": self._choose_columns}

    def on_mount(self) -> None:
        """Look for changes of the dump from time to time."""
        self.set_interval(_FOLLOW_SECONDS, self._follow)

    def action_step(self, distance: int) -> None:
        """Go to another step."""
        self.step_list.cursor += distance

    def action_group(self, direction: int) -> None:
        """Go to the first record of the next or previous group."""
        self.record_list.cursor = first_of_group(self.lines, self.record_list.cursor, direction)

    def action_sort(self) -> None:
        """Sort in the next order."""
        self.order = next_order(self.order)
        self.load_lines()

    def action_mark(self) -> None:
        """Mark the record, to compare it with another one."""
        if self.lines:
            self.marked = self.place
            self.record_list.redraw()

    def action_compare(self) -> None:
        """Show or hide the marked record beside this one, with the words in which they differ."""
        if self.marked is None:
            self.notify("Mark a record first: m")
            return
        self.marked_pane.display = not self.marked_pane.display
        self.reshow_record()

    def action_zoom(self) -> None:
        """Give the whole screen to the part that has the focus, or share it again."""
        part = self.parts.get(self.focused)
        is_zoomed = any(self.screen.has_class(name) for name in self.parts.values())
        self.screen.remove_class(*self.parts.values())
        if part and not is_zoomed:
            self.screen.add_class(part)

    def action_copy_response(self) -> None:
        """Copy the response to the clipboard."""
        if self.lines:
            self.copy_to_clipboard(self.source.dump.fields.text(self.source.record(*self.place), "response"))
            self.notify("The response is copied")

    def action_copy_record(self) -> None:
        """Copy the record to the clipboard, as JSON."""
        if self.lines:
            self.copy_to_clipboard(json_text(self.source.record(*self.place)))
            self.notify("The record is copied")

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(HelpScreen())

    # Questions.

    def action_ask(self, what: str) -> None:
        """Ask for a text to search for, a filter, or columns: a key of `_PROMPTS`."""
        given = {"search": self.needle, "filter": self.filter_text, "columns": ", ".join(self.layout_of_list.columns)}
        self._asked = what
        self.question.placeholder = _PROMPTS[what]
        self.question.value = given[what]
        self.question.display = True
        self.question.focus()

    def action_clear(self) -> None:
        """Close the input without an answer; without an input, end the search and the filter."""
        if self.question.display:
            self._close_question()
        elif self.hits or self.filter_text:
            self.hits, self.filter_text = None, ""
            self._reload()

    def _close_question(self) -> None:
        self.question.display = False
        self.record_list.focus()

    @on(Input.Submitted, "#question")
    def take_answer(self, answer: Input.Submitted) -> None:
        """Do what was asked for; a mistake is shown and can be corrected."""
        try:
            self._answers[self._asked](answer.value.strip())
        except WhereError as error:
            self.notify(Text(str(error)).plain, severity="error", markup=False)
            return
        self._close_question()

    def _filter(self, text: str) -> None:
        if text:
            parse_where(text)
        self.filter_text = text
        self._search_again()
        self._reload()

    def _choose_columns(self, text: str) -> None:
        self._lay_out(columns_of(text))

    def _reload(self) -> None:
        """Make the list again, with the cursor on the record where it is."""
        self._wanted = self.place
        self.load_lines()

    # Search.

    def _search(self, text: str) -> None:
        self.hits = SearchHits(text, self.place) if text else None
        self.reshow_record()
        self.show_status()
        if self.hits:
            self.find_all(self.hits)

    def _search_again(self) -> None:
        """Search with the same text, without moving: the filter or the dump has changed."""
        if self.hits:
            self.hits = SearchHits(self.needle, None)
            self.find_all(self.hits)

    @work(thread=True, exclusive=True, group="find")
    def find_all(self, hits: SearchHits) -> None:
        """Search all steps, from the current one on; hits are shown as they are found."""
        worker = get_current_worker()
        condition = self.condition
        for step in steps_from(self.source.steps, self.step):
            found = list(self.source.find(step, hits.needle, condition))
            if worker.is_cancelled:
                return
            self.call_from_thread(self._add_hits, hits, step, found)
        self.call_from_thread(self._end_search, hits)

    def _add_hits(self, hits: SearchHits, step: int, found: list[int]) -> None:
        hits.add(step, found)
        self._show_first(hits)

    def _end_search(self, hits: SearchHits) -> None:
        hits.is_complete = True
        if hits is self.hits and hits.next(self.place, 1) is None:
            self.notify("No record holds the text", markup=False)
        self._show_first(hits)

    def _show_first(self, hits: SearchHits) -> None:
        first = hits.first()
        if hits is self.hits and first:
            hits.origin = None
            self.go_to(first)
        self.show_status()

    def action_find(self, direction: int) -> None:
        """Go to the next (1) or previous (-1) record that holds the text, in any step."""
        place: Place | None = self.hits.next(self.place, direction) if self.hits else None
        if place:
            self.go_to(place)

    # Following.

    def action_follow(self) -> None:
        """Start or stop following the training."""
        self.is_following = not self.is_following
        self.show_status()

    def _follow(self) -> None:
        if self.is_following:
            self.look_for_changes()

    @work(thread=True, exclusive=True, group="follow")
    def look_for_changes(self) -> None:
        """Look for new, changed and removed files."""
        try:
            changes, problem = self.source.refresh(), ""
        except READ_ERRORS as error:  # the folder is gone; what has been read stays on the screen
            changes, problem = None, str(error)
        self.call_from_thread(self._show_changes, changes, problem)

    def _show_changes(self, changes: Changes | None, problem: str) -> None:
        """Go to the last step if there are new ones; show the current step again if it changed."""
        if problem and problem != self._refresh_problem:
            self.notify(problem, severity="warning", markup=False)
        self._refresh_problem = problem
        if changes is None or not (changes.news or changes.gone):
            return
        if changes.gone:
            self.notify(f"Removed: step {', '.join(map(str, changes.gone[:5]))}", markup=False)
        last = self.source.steps[-1] if self.source.steps else -1
        is_new = any(step > last for step in changes.news)
        self.source.take(changes)
        self._wanted = self.place
        before = [step for step in changes.steps if step <= self.step]
        cursor = len(changes.steps) - 1 if is_new else max(0, len(before) - 1)
        self.step_list.show_lines(len(changes.steps), cursor)
        if not changes.steps:
            self.lines = []
            self.record_list.show_lines(0)
            self.record_pane.show(Text(f"{self.source.path} holds no steps now."))
        self._search_again()
        self.learn_scores()
