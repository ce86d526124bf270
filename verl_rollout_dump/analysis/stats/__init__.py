"""Statistics of each training step, computed from its rollouts.

from verl_rollout_dump.reader import open_dump
from verl_rollout_dump.analysis.stats import step_stats

for stats in step_stats(open_dump("outputs/rollouts")):
    print(stats.step, stats.score.mean, stats.groups_without_signal)
"""

from verl_rollout_dump.analysis.stats.collector import StepCollector, step_stats
from verl_rollout_dump.analysis.stats.columns import COLUMNS, StatsColumn, legend, shown_columns
from verl_rollout_dump.analysis.stats.figures import NumberSummary, StepStats, summarize
from verl_rollout_dump.analysis.stats.unknown import unknown_figures, why_no_scores

__all__ = [
    "COLUMNS",
    "NumberSummary",
    "StatsColumn",
    "StepCollector",
    "StepStats",
    "legend",
    "shown_columns",
    "step_stats",
    "summarize",
    "unknown_figures",
    "why_no_scores",
]
