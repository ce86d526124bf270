"""The columns of the viewer: the steps, the records of a step, and the record under the cursor."""

from __future__ import annotations

import time
from collections.abc import Iterator

from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import Footer, Input, Sparkline, Static
from textual.worker import get_current_worker

from verl_rollout_dump.analysis.where import Condition, parse_where
from verl_rollout_dump.viewer.line_list import LineList
from verl_rollout_dump.viewer.lines import GROUPS, GroupLine, ListLine, RecordLine, bounds_of, line_of
from verl_rollout_dump.viewer.list_columns import ListLayout, index_width_of
from verl_rollout_dump.viewer.record_pane import RecordPane
from verl_rollout_dump.viewer.rendering import list_line, record_text, step_line
from verl_rollout_dump.viewer.search import Place, SearchHits
from verl_rollout_dump.viewer.source import READ_ERRORS, ViewerSource, finite_means

CSS = """
#left { width: 28; border-right: solid $panel; }
#curve { height: 3; margin: 0 1; }
#steps { height: 1fr; }
#middle { width: 2fr; max-width: 80; border-right: solid $panel; }
#heading { height: 1; color: $text-muted; }
#right { width: 3fr; }
RecordPane { width: 1fr; padding: 0 1; }
RecordPane:focus { background: $boost; }
#marked { display: none; border-right: solid $panel; }
#status { height: 1; background: $panel; padding: 0 1; }
#question { display: none; border: none; height: 1; background: $boost; }
.-narrow #left { width: 18; }
.-narrow #middle { width: 32; }
.-narrow #right { width: 1fr; }
.zoom-left #left, .zoom-middle #middle { width: 1fr; max-width: 100%; }
.zoom-left #middle, .zoom-left #right, .zoom-middle #left, .zoom-middle #right { display: none; }
.zoom-right #left, .zoom-right #middle { display: none; }
"""
_DRAW_SECONDS = 0.2  # the shortest time between two drawings of the curve


class RecordBrowser(App[None]):
    """Shows the records of one dump; `ViewerApp` adds what the keys do."""

    CSS = CSS
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]

    def __init__(self, source: ViewerSource) -> None:
        super().__init__()
        self.source = source
        self.step = source.steps[-1] if source.steps else 0
        self.lines: list[ListLine] = []
        self.order = GROUPS
        self.filter_text = ""
        self.hits: SearchHits | None = None
        self.marked: Place | None = None
        self.is_following = False
        self.layout_of_list = ListLayout()
        self._wanted: Place | None = None  # the record to show when the lines of its step are there
        self._mean_bounds = (0.0, 0.0)
        # Kept as attributes: a query sees only the screen on top, which may be the help.
        self.curve = Sparkline([], id="curve")
        self.step_list = LineList(self._step_text, id="steps")
        self.list_heading = Static(id="heading")
        self.record_list = LineList(self._line_text, id="records")
        self.marked_pane, self.record_pane = RecordPane(id="marked"), RecordPane(id="record")
        self.status_line = Static(id="status")
        self.question = Input(id="question")

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        with Horizontal():
            yield Vertical(self.curve, self.step_list, id="left")
            yield Vertical(self.list_heading, self.record_list, id="middle")
            yield Horizontal(self.marked_pane, self.record_pane, id="right")
        yield self.status_line
        yield self.question
        yield Footer()

    def on_mount(self) -> None:
        """Show the last step, and compute the scores of all steps in the background."""
        self.title = str(self.source.path)
        self.step_list.show_lines(len(self.source.steps), len(self.source.steps) - 1)
        self.record_list.focus()
        self.learn_scores()

    @property
    def needle(self) -> str:
        """The text that is searched for, "" for none."""
        return self.hits.needle if self.hits else ""

    @property
    def condition(self) -> Condition | None:
        """The filter."""
        return parse_where(self.filter_text) if self.filter_text else None

    # What the lists show.

    def _step_text(self, number: int, width: int) -> Text:
        step = self.source.steps[number]
        return step_line(step, self.source.mean(step), width, *self._mean_bounds)

    def _line_text(self, number: int, width: int) -> Text:
        line = self.lines[number]
        index = line.group.indexes[0] if isinstance(line, GroupLine) else line.index
        is_marked = isinstance(line, RecordLine) and self.marked == (self.step, line.index)
        record = self.source.record(self.step, index)
        return list_line(line, record, width, self.layout_of_list, is_marked, self.source.dump.fields)

    @work(thread=True, exclusive=True, group="scores")
    def learn_scores(self) -> None:
        """Compute the scores of the steps, the last ones first, and draw them as they arrive."""
        worker = get_current_worker()
        drawn = time.monotonic()
        for step in self.source.unknown_steps():
            if worker.is_cancelled:
                return
            self.source.learn(step)
            if time.monotonic() - drawn > _DRAW_SECONDS:
                self.call_from_thread(self._show_scores)
                drawn = time.monotonic()
        self.call_from_thread(self._show_scores)

    def _show_scores(self) -> None:
        means = finite_means(self.source)
        self._mean_bounds = (min(means, default=0.0), max(means, default=0.0))
        self.curve.data = means
        self.step_list.redraw()

    # Steps and records.

    @on(LineList.Moved, "#steps")
    def show_step(self, moved: LineList.Moved) -> None:
        """Show the records of the step under the cursor."""
        if moved.line < len(self.source.steps):
            self.step = self.source.steps[moved.line]
            self.load_lines()

    @work(thread=True, exclusive=True, group="lines")
    def load_lines(self) -> None:
        """Make the list of the step with the current filter and order."""
        worker = get_current_worker()
        step = self.step
        lines: list[ListLine] = []
        problem = ""
        try:
            lines = self.source.lines(step, self.order, self.condition)
        except READ_ERRORS as error:
            problem = str(error)
        if not worker.is_cancelled:
            self.call_from_thread(self._show_lines, step, lines, problem)

    def _show_lines(self, step: int, lines: list[ListLine], problem: str) -> None:
        if step != self.step:
            return
        self.lines = lines
        self._lay_out(self.layout_of_list.columns)
        first = next((n for n, line in enumerate(lines) if isinstance(line, RecordLine)), 0)
        wanted = line_of(lines, self._wanted[1]) if self._wanted and self._wanted[0] == step else None
        self._wanted = None
        self.record_list.show_lines(len(lines), first if wanted is None else wanted)
        if not lines:
            self.record_pane.show(Text("\n".join(self._why_empty(step, problem))))
        self.show_status()

    def _lay_out(self, columns: tuple[str, ...]) -> None:
        self.layout_of_list = ListLayout(index_width_of(self.lines), bounds_of(self.lines), columns)
        self.list_heading.update(Text(self.layout_of_list.heading(), no_wrap=True, overflow="ellipsis"))
        self.record_list.redraw()

    def _why_empty(self, step: int, problem: str) -> Iterator[str]:
        """Say why a step has no lines."""
        removed = [path for path in self.source.dump.removed_files if path in self._files_of(step)]
        yield from (f"{path} was removed." for path in removed)
        yield from [problem] if problem else []
        if not removed and not problem:
            yield "No record of this step passes the filter." if self.filter_text else "This step has no records."

    def _files_of(self, step: int) -> list[object]:
        return [file.path for file in self.source.dump.files if file.step == step]

    @on(LineList.Moved, "#records")
    def show_record(self, moved: LineList.Moved) -> None:
        """Show the record under the cursor; on a group, its first one."""
        if not self.lines:
            return
        index = self.current_index
        fields = self.source.dump.fields
        record, other = self.source.record(self.step, index), None
        if self.marked_pane.display and self.marked:
            other = self.source.record(*self.marked)
            title = "◆ step {}, index {}".format(*self.marked)
            self.marked_pane.show(record_text(other, title, self.needle, fields, record))
        title = f"step {self.step}, index {index}"
        self.record_pane.show(record_text(record, title, self.needle, fields, other))
        self.show_status()

    def reshow_record(self) -> None:
        """Show the record under the cursor again: what is marked in it has changed."""
        self.show_record(LineList.Moved(self.record_list, self.record_list.cursor))

    @property
    def current_index(self) -> int:
        """The index of the record that is shown."""
        line = self.lines[min(self.record_list.cursor, len(self.lines) - 1)]
        return line.group.indexes[0] if isinstance(line, GroupLine) else line.index

    @property
    def place(self) -> Place:
        """The step and the index of the record that is shown, or is about to be; index -1 if the list is empty."""
        return self._wanted or (self.step, self.current_index if self.lines else -1)

    def go_to(self, place: Place) -> None:
        """Show a record of any step."""
        step, index = place
        line = line_of(self.lines, index)
        if step == self.step and line is not None and self._wanted is None:
            self.record_list.show_lines(len(self.lines), line)
        elif step in self.source.steps:
            self._wanted = place
            self.step_list.show_lines(len(self.source.steps), self.source.steps.index(step))

    def show_status(self) -> None:
        """Show what the list shows: step, number of records, order, filter, search."""
        records = sum(isinstance(line, RecordLine) for line in self.lines)
        parts = [f"step {self.step}", f"{records} records", self.order]
        parts += [f"search: {self.needle} ({self.hits.told(self.place)})"] if self.hits else []
        parts += [f"filter: {self.filter_text}"] if self.filter_text else []
        parts += ["following"] if self.is_following else []
        self.status_line.update(Text("  ·  ".join(parts), no_wrap=True, overflow="ellipsis"))

    @property
    def parts(self) -> dict[Widget | None, str]:
        """The part of the screen that each focusable widget stands in, by the name of its zoom."""
        return {
            self.step_list: "zoom-left",
            self.record_list: "zoom-middle",
            self.record_pane: "zoom-right",
            self.marked_pane: "zoom-right",
        }
