"""The figures of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class NumberSummary:
    """The figures of a column of numbers. `std` is the population's; None if there is no finite number."""

    count: int = 0
    mean: float | None = None
    std: float | None = None
    min: float | None = None
    max: float | None = None
    non_finite: int = 0


@dataclass(frozen=True)
class StepStats:
    """The figures of one step. Shares are 0 to 1, lengths are characters. None: unknown, `unknown` says why.

    `null_scores` counts the records without a number as score. `truncated` is None if no field says it (`truncated`,
    `is_truncated`, `overlong`, `finish_reason`, `stop_reason`, slime's `status`).

    A group is the rollouts of one prompt, two or more. If all their scores are equal the group gives no signal: GRPO's
    advantage is zero. A group with a null score is in neither count; `groups_undecided` counts these groups.
    """

    step: int
    records: int
    unreadable_lines: int
    score: NumberSummary
    response_length: NumberSummary
    empty: float | None
    duplicated: float | None
    truncated: float | None
    groups: int | None
    groups_without_signal: int | None
    groups_undecided: int | None = 0
    null_scores: int | None = 0
    extras: dict[str, NumberSummary] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)  # role -> why its figures are unknown

    @property
    def without_signal(self) -> float | None:
        """The share of groups without signal among those with all scores; None if there are none."""
        if self.groups is None or self.groups_without_signal is None:
            return None
        decided = self.groups - (self.groups_undecided or 0)
        return self.groups_without_signal / decided if decided else None

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return {**asdict(self), "without_signal": self.without_signal}

    def as_row(self) -> dict[str, Any]:
        """Return the numbers as one flat row: `score.mean`, `extras.acc.mean`, ..."""
        row: dict[str, Any] = {}
        for name, value in self.as_json().items():
            if name == "extras":
                row |= {f"extras.{key}.{part}": n for key, summary in value.items() for part, n in summary.items()}
            elif name != "unknown":
                row |= {f"{name}.{part}": n for part, n in value.items()} if isinstance(value, dict) else {name: value}
        return row


def summarize(values: Sequence[float]) -> NumberSummary:
    """Return the figures of the finite numbers; NaN and infinities are only counted."""
    array = np.asarray(values, dtype=np.float64)
    finite = array[np.isfinite(array)]
    bad = len(array) - len(finite)
    if not len(finite):
        return NumberSummary(non_finite=bad)
    with np.errstate(over="ignore"):  # figures of very large numbers are infinite
        mean, std, low, high = (float(figure(finite)) for figure in (np.mean, np.std, np.min, np.max))
    return NumberSummary(len(finite), mean, std, low, high, bad)
