"""The columns of a table of steps: name, meaning, value and text of each, for the command, the report and scripts.

Adding a column: a figure in `StepStats` (see `figures`) and one row in `COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from verl_rollout_dump.analysis.formatting import figure, percent
from verl_rollout_dump.analysis.stats.figures import StepStats


class StatsColumn(NamedTuple):
    """A column of a table with one row per step.

    `name` is the key of the figure in `StepStats.as_row`, `heading` what tables show above it. `value` returns the
    number to draw, `text` the cell of a table; both stay blank (None, "") where the figure is unknown. `has_curve`
    says whether terminals draw the column over the steps.
    """

    name: str
    heading: str
    meaning: str
    value: Callable[[StepStats], float | None]
    text: Callable[[StepStats], str]
    has_curve: bool = False


def _groups_text(stats: StepStats) -> str:
    return f"{stats.groups_without_signal}/{stats.groups}" if stats.groups else ""


COLUMNS: tuple[StatsColumn, ...] = (
    StatsColumn("step", "step", "the training step", lambda s: s.step, lambda s: str(s.step)),
    StatsColumn("records", "records", "readable records", lambda s: s.records, lambda s: str(s.records)),
    StatsColumn(
        "score.mean", "score", "mean score", lambda s: s.score.mean, lambda s: figure(s.score.mean), has_curve=True
    ),
    StatsColumn(
        "score.std", "std", "standard deviation of the scores", lambda s: s.score.std, lambda s: figure(s.score.std)
    ),
    StatsColumn("score.min", "min", "lowest score", lambda s: s.score.min, lambda s: figure(s.score.min)),
    StatsColumn("score.max", "max", "highest score", lambda s: s.score.max, lambda s: figure(s.score.max)),
    StatsColumn(
        "response_length.mean",
        "length",
        "mean length of the responses in characters",
        lambda s: s.response_length.mean,
        lambda s: figure(s.response_length.mean, 0),
        has_curve=True,
    ),
    StatsColumn("empty", "empty", "share of empty responses", lambda s: s.empty, lambda s: percent(s.empty)),
    StatsColumn(
        "duplicated",
        "doubled",
        "share of responses that equal another one of the step",
        lambda s: s.duplicated,
        lambda s: percent(s.duplicated),
    ),
    StatsColumn(
        "truncated",
        "cut",
        "share of responses that the length limit stopped",
        lambda s: s.truncated,
        lambda s: percent(s.truncated),
    ),
    StatsColumn(
        "without_signal",
        "no signal",
        "groups whose scores are all equal, of all groups",
        lambda s: s.without_signal,
        _groups_text,
        has_curve=True,
    ),
)


def legend() -> str:
    """Return one sentence that explains all columns whose heading does not explain itself."""
    return "; ".join(f"{column.heading}: {column.meaning}" for column in COLUMNS if column.name != column.heading)
