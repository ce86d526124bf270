"""Compare two dumps, or two ranges of steps of one: the score per step, and the prompts that changed most.

Everything comes from the indexes, where prompts are hashes; only the texts that are shown are read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from verl_rollout_dump.reader import Dump

# --by -> the column of the index that identifies a prompt
KEYS = {"prompt": "prompt_group", "uid": "uid_group"}


class StepScores(NamedTuple):
    """The mean score of a step in both dumps; None if a dump lacks the step or its scores."""

    step: int
    before: float | None
    after: float | None

    @property
    def change(self) -> float | None:
        """After minus before."""
        return None if self.before is None or self.after is None else self.after - self.before


@dataclass(frozen=True)
class PromptChange:
    """A prompt in both dumps: mean scores, number of rollouts, and (step, index) of its best rollout in each."""

    before: float
    after: float
    rollouts_before: int
    rollouts_after: int
    place_before: tuple[int, int]
    place_after: tuple[int, int]

    @property
    def change(self) -> float:
        """After minus before."""
        return self.after - self.before

    def as_json(self) -> dict[str, Any]:
        """Return the change as JSON values."""
        return {**vars(self), "change": self.change}


@dataclass(frozen=True)
class _Scored:
    """The records with a score, as columns of equal length: prompt hash, score, step, index in the step."""

    keys: NDArray[np.uint64]
    scores: NDArray[np.float64]
    steps: NDArray[np.int64]
    indexes: NDArray[np.int64]


def scored_records(dump: Dump, steps: Collection[int], by: str) -> _Scored:
    """Return the scored records of some steps, from the index. `by` is a key of `KEYS`."""
    parts: list[tuple[Any, Any, Any, Any]] = []
    for step in steps:
        scores, keys = dump.scores(step), dump.column(step, KEYS[by])
        good = np.isfinite(scores) & (keys != 0)
        indexes = np.flatnonzero(good)
        parts.append((keys[good], scores[good], np.full(len(indexes), step), indexes))
    if not parts:
        parts = [(np.array([], np.uint64), np.array([]), np.array([], np.int64), np.array([], np.int64))]
    return _Scored(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def step_scores(before: Dump, after: Dump) -> list[StepScores]:
    """Return the mean scores of all steps of two dumps."""
    one, other = mean_scores(before), mean_scores(after)
    return [StepScores(step, one.get(step), other.get(step)) for step in sorted({*one, *other})]


def mean_scores(dump: Dump) -> dict[int, float | None]:
    """Return the mean of the finite scores of each step, ascending; None for a step without any. Reads all indexes."""
    columns = dump.columns("step", "score")
    order = np.argsort(columns["step"], kind="stable")
    steps, starts = np.unique(columns["step"][order], return_index=True)
    scores = np.split(columns["score"][order], starts[1:])
    return {step: _finite_mean(some) for step, some in zip(steps.tolist(), scores, strict=False)}


def mean_score(dump: Dump, step: int) -> float | None:
    """Return the mean of the finite scores of a step; None if there are none."""
    return _finite_mean(dump.scores(step))


def _finite_mean(scores: NDArray[np.float64]) -> float | None:
    """Return the mean of the finite scores; None if there are none."""
    finite = scores[np.isfinite(scores)]
    return float(np.add.reduce(finite)) / len(finite) if len(finite) else None


def prompt_changes(before: _Scored, after: _Scored) -> list[PromptChange]:
    """Return the prompts that are in both, largest loss first."""
    one, other = _by_key(before), _by_key(after)
    changes = [
        PromptChange(mean_before, mean_after, count_before, count_after, place_before, place_after)
        for key in one.keys() & other.keys()
        for (mean_before, count_before, place_before) in [one[key]]
        for (mean_after, count_after, place_after) in [other[key]]
    ]
    return sorted(changes, key=lambda change: (change.change, change.place_before))


def _by_key(scored: _Scored) -> dict[int, tuple[float, int, tuple[int, int]]]:
    """Return for each key its mean score, number of rollouts, and (step, index) of the best rollout."""
    if not len(scored.keys):
        return {}
    order = np.lexsort((-scored.scores, scored.keys))
    keys, scores = scored.keys[order], scored.scores[order]
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    counts = np.diff(np.r_[starts, len(keys)])
    means = np.add.reduceat(scores, starts) / counts
    best = order[starts]
    return {
        int(key): (float(mean), int(count), (int(scored.steps[row]), int(scored.indexes[row])))
        for key, mean, count, row in zip(keys[starts], means, counts, best, strict=True)
    }
