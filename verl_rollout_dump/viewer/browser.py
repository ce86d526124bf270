"""The columns of the viewer: the steps, the records of a step, and the record under the cursor."""

from __future__ import annotations

import time

from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Footer, Input, Sparkline, Static
from textual.worker import get_current_worker

from verl_rollout_dump.analysis.where import Condition, parse_where
from verl_rollout_dump.viewer.line_list import LineList
from verl_rollout_dump.viewer.record_pane import RecordPane
from verl_rollout_dump.viewer.rendering import bounds_of, list_line, record_text, step_line
from verl_rollout_dump.viewer.source import (
    GROUPS,
    GroupLine,
    ListLine,
    RecordLine,
    ViewerSource,
    finite_means,
)

CSS = """
#left { width: 28; border-right: solid $panel; }
#curve { height: 3; margin: 0 1; }
#steps { height: 1fr; }
#records { width: 2fr; max-width: 70; border-right: solid $panel; }
#right { width: 3fr; }
RecordPane { width: 1fr; padding: 0 1; }
RecordPane:focus { background: $boost; }
#marked { display: none; border-right: solid $panel; }
#status { height: 1; background: $panel; padding: 0 1; }
#question { display: none; border: none; height: 1; background: $boost; }
"""


_FOLLOW_SECONDS = 2.0
_DRAW_SECONDS = 0.2  # the shortest time between two drawings of the curve


class RecordBrowser(App[None]):
    """Shows the records of one dump; `ViewerApp` adds what the keys do."""

    CSS = CSS
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, source: ViewerSource) -> None:
        super().__init__()
        self.source = source
        self.step = source.steps[-1] if source.steps else 0
        self.lines: list[ListLine] = []
        self.order = GROUPS
        self.needle = ""
        self.filter_text = ""
        self.marked: tuple[int, int] | None = None
        self.is_following = False
        self._bounds = (0.0, 0.0)
        # Kept as attributes: a query sees only the screen on top, which may be the help.
        self.curve = Sparkline([], id="curve")
        self.step_list = LineList(self._step_text, id="steps")
        self.record_list = LineList(self._line_text, id="records")
        self.marked_pane, self.record_pane = RecordPane(id="marked"), RecordPane(id="record")
        self.status_line = Static(id="status")
        self.question = Input(id="question")
        self._mean_bounds = (0.0, 0.0)

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        with Horizontal():
            with Vertical(id="left"):
                yield self.curve
                yield self.step_list
            yield self.record_list
            with Horizontal(id="right"):
                yield self.marked_pane
                yield self.record_pane
        yield self.status_line
        yield self.question
        yield Footer()

    def on_mount(self) -> None:
        """Show the last step, and compute the scores of all steps in the background."""
        self.title = str(self.source.path)
        self.set_interval(_FOLLOW_SECONDS, self._look_for_new_steps)
        self.step_list.show_lines(len(self.source.steps), len(self.source.steps) - 1)
        self.record_list.focus()
        self.learn_scores()

    # What the lists show.

    def _step_text(self, number: int, width: int) -> Text:
        step = self.source.steps[number]
        return step_line(step, self.source.mean(step), *self._mean_bounds)

    def _line_text(self, number: int, width: int) -> Text:
        line = self.lines[number]
        index = line.group.indexes[0] if isinstance(line, GroupLine) else line.index
        is_marked = isinstance(line, RecordLine) and self.marked == (self.step, line.index)
        return list_line(
            line, self.source.record(self.step, index), width, self._bounds, is_marked, self.source.dump.fields
        )

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
        if self.source.steps:
            self.step = self.source.steps[moved.line]
            self.load_lines(0)

    @work(thread=True, exclusive=True, group="lines")
    def load_lines(self, cursor: int) -> None:
        """Make the list of the step with the current filter and order."""
        worker = get_current_worker()
        step = self.step
        lines = self.source.lines(step, self.order, self._condition())
        if not worker.is_cancelled:
            self.call_from_thread(self._show_lines, step, lines, cursor)

    def _condition(self) -> Condition | None:
        return parse_where(self.filter_text) if self.filter_text else None

    def _show_lines(self, step: int, lines: list[ListLine], cursor: int) -> None:
        if step != self.step:
            return
        self.lines = lines
        self._bounds = bounds_of(lines)
        first_record = next((n for n, line in enumerate(lines) if isinstance(line, RecordLine)), 0)
        self.record_list.show_lines(len(lines), cursor or first_record)
        if not lines:
            self.record_pane.show(Text("No record of this step passes the filter."))
        self._show_status()

    @on(LineList.Moved, "#records")
    def show_record(self, moved: LineList.Moved) -> None:
        """Show the record under the cursor; on a group, its first one."""
        if not self.lines:
            return
        index = self.current_index
        record = self.source.record(self.step, index)
        title = f"step {self.step}, index {index}"
        self.record_pane.show(record_text(record, title, self.needle, self.source.dump.fields))

    @property
    def current_index(self) -> int:
        """The index of the record that is shown."""
        line = self.lines[self.record_list.cursor]
        return line.group.indexes[0] if isinstance(line, GroupLine) else line.index

    def _show_status(self) -> None:
        records = sum(isinstance(line, RecordLine) for line in self.lines)
        parts = [f"step {self.step}", f"{records} records", self.order]
        parts += [f"filter: {self.filter_text}"] if self.filter_text else []
        parts += [f"search: {self.needle}"] if self.needle else []
        parts += ["following"] if self.is_following else []
        self.status_line.update(Text("  ·  ".join(parts)))

    # New steps.

    def _look_for_new_steps(self) -> None:
        if not self.is_following or not self.source.refresh():
            return
        self.step_list.show_lines(len(self.source.steps), len(self.source.steps) - 1)
        self.learn_scores()
