"""The columns of a table of steps: name, meaning, value and text of each, for the command, the report and scripts.

Adding a column: a figure in `StepStats` (see `figures`) and one row in `COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from verl_rollout_dump.analysis.formatting import figure, percent
from verl_rollout_dump.analysis.stats.figures import StepStats


class StatsColumn(NamedTuple):
    """A column of a table with one row per step.

    `name` is the key of the figure in `StepStats.as_row`, `heading` what tables show above it. `value` returns the
    number to draw, `text` the cell of a table; both are blank (None, "") if the figure is unknown. Terminals draw the
    columns that have a curve. Tables leave a column out if it is optional and blank in every step. A narrow terminal
    leaves out the columns with the highest `expendable` first, and those with 0 never.
    """

    name: str
    heading: str
    meaning: str
    value: Callable[[StepStats], float | None]
    text: Callable[[StepStats], str]
    has_curve: bool = False
    is_optional: bool = False
    expendable: int = 0


def _groups_text(stats: StepStats) -> str:
    if not stats.groups or stats.groups_without_signal is None:
        return ""
    decided = stats.groups - (stats.groups_undecided or 0)
    return f"{stats.groups_without_signal}/{decided}" + (
        f" +{stats.groups_undecided}?" if decided < stats.groups else ""
    )


COLUMNS: tuple[StatsColumn, ...] = (
    StatsColumn("step", "step", "the training step", lambda s: s.step, lambda s: str(s.step)),
    StatsColumn("records", "records", "readable records", lambda s: s.records, lambda s: str(s.records), expendable=1),
    StatsColumn(
        "score.mean", "score", "mean score", lambda s: s.score.mean, lambda s: figure(s.score.mean), has_curve=True
    ),
    StatsColumn(
        "score.std",
        "std",
        "standard deviation of the scores",
        lambda s: s.score.std,
        lambda s: figure(s.score.std),
        expendable=7,
    ),
    StatsColumn(
        "score.min",
        "min",
        "lowest score",
        lambda s: s.score.min,
        lambda s: figure(s.score.min),
        expendable=8,
    ),
    StatsColumn(
        "score.max", "max", "highest score", lambda s: s.score.max, lambda s: figure(s.score.max), expendable=8
    ),
    StatsColumn(
        "response_length.mean",
        "length",
        "mean length of the responses in characters",
        lambda s: s.response_length.mean,
        lambda s: figure(s.response_length.mean, 0),
        has_curve=True,
    ),
    StatsColumn(
        "null_scores",
        "null",
        "records whose score is null or not a number",
        lambda s: s.null_scores,
        lambda s: str(s.null_scores) if s.null_scores else "",
        is_optional=True,
        expendable=4,
    ),
    StatsColumn(
        "empty",
        "empty",
        "share of responses without visible text",
        lambda s: s.empty,
        lambda s: percent(s.empty),
        expendable=5,
    ),
    StatsColumn(
        "duplicated",
        "doubled",
        "share of responses that equal another one of the step",
        lambda s: s.duplicated,
        lambda s: percent(s.duplicated),
        expendable=6,
    ),
    StatsColumn(
        "truncated",
        "cut",
        "share of responses that the length limit stopped",
        lambda s: s.truncated,
        lambda s: percent(s.truncated),
        is_optional=True,
        expendable=3,
    ),
    StatsColumn(
        "without_signal",
        "no signal",
        "groups whose scores are all equal, of the groups without a null score (+n?: groups with one)",
        lambda s: s.without_signal,
        _groups_text,
        has_curve=True,
        expendable=2,
    ),
)


def shown_columns(steps: Sequence[StepStats]) -> list[StatsColumn]:
    """Return the columns of a table of some steps."""
    return [column for column in COLUMNS if not column.is_optional or any(map(column.text, steps))]


def legend(columns: Sequence[StatsColumn] = COLUMNS) -> str:
    """Return a sentence that explains the columns whose headings do not explain themselves."""
    return "; ".join(f"{column.heading}: {column.meaning}" for column in columns if column.name != column.heading)
