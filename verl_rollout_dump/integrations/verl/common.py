"""What the rollouts of verl's trainers have in common.

v0 (`v0.py`), v1 (`v1.py`) and text that is decoded already give the same columns, and none changes what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from verl_rollout_dump.batch.deferred import resolved
from verl_rollout_dump.batch.rollout_batch import RolloutBatch, Split
from verl_rollout_dump.batch.source import RolloutSource
from verl_rollout_dump.config import DumpConfig
from verl_rollout_dump.config.urls import absolute


class TrainerAdapter(Protocol):
    """How the rollouts of one generation of verl's trainers are read."""

    def read(self, trainer: Any, config: DumpConfig, columns: Mapping[str, Any]) -> RolloutBatch:
        """Return the rollouts that `_log_rollout_data` got.

        `columns` are its arguments `batch` and, where the trainer has it, `reward_extra_infos_dict`.
        """

    def source(self, trainer: Any, columns: Mapping[str, Any]) -> RolloutSource | None:
        """Return a source from which the dump reads the rollouts itself; None if they are in this process."""


def can_reject(config: Any) -> bool:
    """Return whether verl zeroes the loss mask of rollouts that it rejects.

    In bypass mode the workers reject inside of the loss, where the trainer and its masks do not show it.
    """
    correction = _section(config, "rollout_correction")
    return bool(correction.get("rollout_rs")) and not correction.get("bypass_mode")


def has_outcomes(config: Any) -> bool:
    """Return whether a rollout of a run can have another outcome than `trained`, by the trainer's whole config."""
    return can_reject(config) or bool(_section(config, "filter_groups").get("enable"))


def _section(config: Any, name: str) -> Mapping[str, Any]:
    """Return a section of `algorithm`; empty in a release, or for a trainer, without it."""
    algorithm = config.get("algorithm") or {}
    return algorithm.get(name) or {}


def decoded_rollouts(
    trainer: Any,
    split: Split,
    inputs: Sequence[str],
    outputs: Sequence[str],
    gts: Sequence[Any],
    scores: Sequence[float],
    reward_extra_infos_dict: Mapping[str, Any],
) -> RolloutBatch:
    """Read what all trainers hand to `_dump_generations`: text that is decoded already."""
    return RolloutBatch(
        step=trainer.global_steps,
        prompts=inputs,
        responses=outputs,
        scores=scores,
        ground_truths=gts,
        extras=without_repeated_score(dict(reward_extra_infos_dict), scores),
        split=split,
    )


def ground_truths(reward_models: Any) -> list[Any] | None:
    """Return `ground_truth` from each rollout's `reward_model` entry; None if the trainer has no such entries."""
    if reward_models is None or len(reward_models) == 0:
        return None
    entries = list(reward_models)
    if set(map(type, entries)) == {dict}:
        return [entry.get("ground_truth") for entry in entries]
    return [entry.get("ground_truth") if isinstance(entry, Mapping) else None for entry in entries]


def without_repeated_score(extras: dict[str, Any], scores: Any) -> dict[str, Any]:
    """Return the extras without `score` if it repeats the trainer's score: verl's reward loop adds it to every dict.

    The comparison is in float32, as the trainer keeps its scores. A score that differs stays an extra.
    """
    if "score" not in extras or scores is None:
        return extras
    try:
        ours = np.asarray(resolved(scores), dtype=np.float32)
        theirs = np.asarray(extras["score"], dtype=np.float32)
    except (TypeError, ValueError):  # not numbers, so not a repetition
        return extras
    if ours.shape == theirs.shape and np.array_equal(ours, theirs, equal_nan=True):
        return {name: values for name, values in extras.items() if name != "score"}
    return extras


def split_of(trainer: Any, config: DumpConfig, directory: str) -> Split | None:
    """Return the split whose directory this is, by the node or by verl's own keys; None if it is neither's."""
    verls = trainer.config["trainer"]
    places: dict[Split, tuple[Any, Any]] = {
        "validation": (config.path.validation_dir, verls.get("validation_data_dir")),
        "train": (config.path.dir, verls.get("rollout_data_dir")),
    }
    for split, (ours, theirs) in places.items():
        if ours is not None and directory in (absolute(str(place)) for place in (ours, theirs) if place):
            return split
    return None
