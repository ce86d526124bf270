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
    """What one step holds. Shares are 0 to 1, lengths are characters.

    `truncated` is null where no field of the records tells it (`truncated`, `is_truncated`, `overlong`, or a
    `finish_reason` or `stop_reason`). A group is the rollouts of one prompt; it gives no signal where it has two or
    more rollouts and all their scores are equal: GRPO's advantage is zero then.
    """

    step: int
    records: int
    unreadable_lines: int
    score: NumberSummary
    response_length: NumberSummary
    empty: float
    duplicated: float
    truncated: float | None
    groups: int
    groups_without_signal: int
    extras: dict[str, NumberSummary] = field(default_factory=dict)

    @property
    def without_signal(self) -> float | None:
        """The share of groups without signal; None if there are no groups."""
        return self.groups_without_signal / self.groups if self.groups else None

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return {**asdict(self), "without_signal": self.without_signal}

    def as_row(self) -> dict[str, Any]:
        """Return the figures as one flat row: `score.mean`, `extras.acc.mean`, ..."""
        row: dict[str, Any] = {}
        for name, value in self.as_json().items():
            nested = value if isinstance(value, dict) else {}
            for inner, figure in nested.items():
                flat = {f"{inner}.{key}": number for key, number in figure.items()} if name == "extras" else None
                row |= {f"{name}.{key}": number for key, number in (flat or {inner: figure}).items()}
            if not isinstance(value, dict):
                row[name] = value
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
