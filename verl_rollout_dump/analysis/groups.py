"""The groups of a step: the rollouts of each prompt, and whether their scores differ. Reads only the index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from verl_rollout_dump.analysis.selection import Selection
from verl_rollout_dump.reader import Dump


@dataclass(frozen=True)
class Group:
    """The rollouts of one prompt in a step: their indexes and scores (None: not a number)."""

    step: int
    indexes: list[int]
    scores: list[float | None]

    @property
    def mean(self) -> float | None:
        """The mean of the known scores; None if there are none."""
        known = [score for score in self.scores if score is not None]
        return sum(known) / len(known) if known else None

    @property
    def has_signal(self) -> bool | None:
        """Whether the scores differ, as GRPO needs them to. None if a score is null: then it cannot be known."""
        return None if None in self.scores else len(set(self.scores)) > 1

    def as_json(self) -> dict[str, Any]:
        """Return the group as JSON values."""
        return {**vars(self), "mean": self.mean, "has_signal": self.has_signal}


def groups_of_step(dump: Dump, step: int) -> list[Group]:
    """Return the groups of a step, sorted by their first rollouts."""
    scores, keys = dump.scores(step), dump.groups(step)
    alone = keys == 0  # no group is known: each such record is a group of its own
    keys[alone] = np.arange(1, alone.sum() + 1, dtype=keys.dtype)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    members: list[list[int]] = [[] for _ in first]
    for index, group in enumerate(inverse.tolist()):
        members[group].append(index)
    in_order = sorted(members, key=lambda indexes: indexes[0])
    return [Group(step, indexes, [_score_or_none(scores[index]) for index in indexes]) for indexes in in_order]


def select_groups(groups: list[Group], selection: Selection) -> list[Group]:
    """Return the groups that a selection chooses: its numbers count groups, whose scores are their means."""
    if selection.is_ranked:
        sign = 1.0 if selection.best is None else -1.0
        ranked = sorted((sign * group.mean, place) for place, group in enumerate(groups) if group.mean is not None)
        groups = [groups[place] for _, place in ranked[: selection.best or selection.worst]]
    elif selection.random is not None:
        groups = selection.sample(groups, selection.random)
    return groups[: selection.limit]


def _score_or_none(score: Any) -> float | None:
    """Return a score of the index; None for NaN and infinities."""
    return float(score) if np.isfinite(score) else None
