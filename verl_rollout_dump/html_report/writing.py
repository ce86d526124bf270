"""The sections of the report, and their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from verl_rollout_dump.analysis.diff import PromptChange, prompt_changes, scored_records
from verl_rollout_dump.analysis.formatting import figure, one_line, readable_size
from verl_rollout_dump.analysis.groups import groups_of_step
from verl_rollout_dump.analysis.selection import Selection
from verl_rollout_dump.analysis.stats import (
    NumberSummary,
    StepStats,
    legend,
    shown_columns,
    step_stats,
    unknown_figures,
)
from verl_rollout_dump.html_report.charts import histogram, shares_chart, summary_chart
from verl_rollout_dump.html_report.page import charts, heading, page, record_details, table
from verl_rollout_dump.reader import Dump, DumpReadError
from verl_rollout_dump.reader.field_names import DEFAULT_FIELDS
from verl_rollout_dump.reader.parallel import OnProgress, ignore_progress
from verl_rollout_dump.storage.atomic_files import replacing
from verl_rollout_dump.storage.steps import format_steps

_EXTRAS_SHOWN = 24
_EXAMPLES = 5
_STEPS_IN_TABLE = 200
_GROUPS_SHOWN = 30
_SIGNAL = {True: "yes", False: "no", None: "null score"}


@dataclass
class _ReportSource:
    """A dump with its index, and the figures of its steps."""

    dump: Dump
    stats: list[StepStats]

    @property
    def steps(self) -> list[int]:
        """The steps that there are records of."""
        return [stats.step for stats in self.stats if stats.records]


def write_report(dump: Dump, target: Path, workers: int = 1, on_progress: OnProgress = ignore_progress) -> None:
    """Write the report; the file appears when it is complete. Reads the dump twice. Raises `DumpReadError`."""
    if not target.absolute().parent.is_dir():
        raise DumpReadError(f"{target.parent} is not a directory; make it first")
    dump.make_index(workers, on_progress)
    source = _ReportSource(dump, list(step_stats(dump, None, workers, on_progress)))
    if not source.steps:
        raise DumpReadError(f"{dump.path} holds no records to report on")
    with replacing(target) as temporary, temporary.open("w", encoding="utf-8") as file:
        for piece in page(f"Rollouts of {dump.path.absolute().name}", _sections(source)):
            file.write(piece)


def _sections(source: _ReportSource) -> Iterator[str]:
    """Yield the sections of the report."""
    yield _overview(source)
    unknown = unknown_figures(source.stats)
    yield heading("Scores", unknown.get("score", ""))
    if "score" not in unknown:
        yield charts([_summary_of("score", source, [stats.score for stats in source.stats]), *_distributions(source)])
    explanation = "Lengths are characters. In a group without signal all scores are equal."
    yield heading("Responses", unknown.get("response", explanation))
    if "response" not in unknown:
        lengths = [stats.response_length for stats in source.stats]
        yield charts([_summary_of("response length", source, lengths), shares_chart(source.stats)])
    yield _extras(source)
    yield from _examples(source)
    yield _changes(source)
    yield _groups(source)
    yield _steps_table(source)


def _overview(source: _ReportSource) -> str:
    """What was read."""
    dump, run = source.dump, source.dump.run or {}
    records = sum(stats.records for stats in source.stats)
    told = f"{records} records of steps {format_steps(source.steps)}, {readable_size(dump.size)}"
    versions = ", ".join(f"{name} {version}" for name, version in (run.get("versions") or {}).items())
    state = f"state: {run['state']}. {versions}" if "state" in run else "no run.json"
    title = f"Rollouts of {dump.path.absolute().name}"
    return heading(title, told).replace("h2", "h1") + heading("", state).replace("<h2></h2>", "")


def _summary_of(title: str, source: _ReportSource, figures: list[NumberSummary]) -> str:
    """The curve of a column over the steps."""
    return summary_chart(title, [stats.step for stats in source.stats], figures)


def _distributions(source: _ReportSource) -> Iterator[str]:
    """How the scores are distributed in the first, the middle and the last step."""
    steps = source.steps
    for step in dict.fromkeys((steps[0], steps[len(steps) // 2], steps[-1])):
        yield histogram(f"scores of step {step}", source.dump.scores(step))


def _extras(source: _ReportSource) -> str:
    """The curves of all numeric extras."""
    names = list(dict.fromkeys(name for stats in source.stats for name in stats.extras))
    if not names:
        return ""
    curves = [
        _summary_of(one_line(name, 60), source, [stats.extras.get(name, NumberSummary()) for stats in source.stats])
        for name in names[:_EXTRAS_SHOWN]
    ]
    more = f"{len(names) - _EXTRAS_SHOWN} more are in `stats --csv`." if len(names) > _EXTRAS_SHOWN else ""
    return heading("Extras", more) + charts(curves)


def _examples(source: _ReportSource) -> Iterator[str]:
    """The best and the worst records of the last step."""
    last = source.steps[-1]
    if "score" in unknown_figures(source.stats):
        return
    for title, selection in (
        ("Worst", Selection(str(last), worst=_EXAMPLES)),
        ("Best", Selection(str(last), best=_EXAMPLES)),
    ):
        yield heading(f"{title} of step {last}")
        for row in selection.rows(source.dump):
            score = figure(float(source.dump.scores(row.step)[row.index]))
            shown = one_line(source.dump.fields.text(row.record, "prompt"), 80)
            yield record_details(f"{score}  index {row.index}  {shown}", row.record, source.dump.fields)


def _changes(source: _ReportSource) -> str:
    """The prompts whose scores changed most between the first and the last third of the steps."""
    third = max(1, len(source.steps) // 3)
    early, late = source.steps[:third], source.steps[-third:]
    if len(source.steps) < 2 or "score" in unknown_figures(source.stats):
        return ""
    found = prompt_changes(scored_records(source.dump, early, "prompt"), scored_records(source.dump, late, "prompt"))
    told = f"Steps {format_steps(early)} against {format_steps(late)}: {len(found)} prompts are in both."
    worse = [change for change in found if change.change < 0][:_EXAMPLES]
    better = [change for change in reversed(found) if change.change > 0][:_EXAMPLES]
    shown = "".join(_changed(source.dump, change) for change in (*worse, *better))
    return heading("Prompts that changed most", told) + shown


def _changed(dump: Dump, change: PromptChange) -> str:
    """A prompt that changed, with its best response before and after."""
    before, after = (dump.raw_record(*place) for place in (change.place_before, change.place_after))
    record = {
        "input": dump.fields.text(after, "prompt"),
        "output": dump.fields.text(after, "response"),
        "response before": dump.fields.text(before, "response"),
    }
    shown = one_line(dump.fields.text(after, "prompt"), 80)
    return record_details(
        f"{change.change:+.4f}  ({change.before:.4f} → {change.after:.4f})  {shown}", record, DEFAULT_FIELDS
    )


def _groups(source: _ReportSource) -> str:
    """The groups of the last step."""
    last = source.steps[-1]
    found = [group for group in groups_of_step(source.dump, last) if len(group.indexes) > 1]
    if not found:
        return ""
    silent = sum(group.has_signal is False for group in found)
    rows = [
        (
            str(group.indexes[0]),
            figure(group.mean),
            _SIGNAL[group.has_signal],
            " ".join("-" if score is None else f"{score:.3g}" for score in group.scores[:16]),
            one_line(source.dump.fields.text(source.dump.raw_record(last, group.indexes[0]), "prompt"), 100),
        )
        for group in found[:_GROUPS_SHOWN]
    ]
    told = f"{len(found)} groups, {silent} without signal."
    return heading(f"Groups of step {last}", told) + table(("index", "mean", "signal", "scores", "prompt"), rows)


def _steps_table(source: _ReportSource) -> str:
    """The figures of the last steps."""
    shown = source.stats[-_STEPS_IN_TABLE:]
    columns = shown_columns(shown)
    rows = [[column.text(stats) for column in columns] for stats in shown]
    return heading("Steps", legend(columns)) + table([column.heading for column in columns], rows)
