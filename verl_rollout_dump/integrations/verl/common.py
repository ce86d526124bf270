"""What the rollouts of verl's trainers have in common; validation, in all of them, is decoded text.

v0 (`verl_v0.py`), v1 (`verl_v1.py`) and validation give the same columns, and none changes what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from verl_rollout_dump.batch.deferred import present
from verl_rollout_dump.batch.rollout_batch import RolloutBatch
from verl_rollout_dump.config import DumpConfig


def validation_rollouts(
    trainer: Any,
    config: DumpConfig,
    inputs: Sequence[str],
    outputs: Sequence[str],
    gts: Sequence[Any],
    scores: Sequence[float],
    reward_extra_infos_dict: Mapping[str, Any],
) -> RolloutBatch:
    """Read what both trainers hand to `_dump_generations`: text that is decoded already."""
    return RolloutBatch(
        step=trainer.global_steps,
        prompts=inputs,
        responses=outputs,
        scores=scores,
        ground_truths=gts,
        extras=without_repeated_score(dict(reward_extra_infos_dict), scores),
        split="validation",
    )


def ground_truths(reward_models: Any) -> list[Any] | None:
    """Return `ground_truth` out of each rollout's `reward_model` entry; None where there are none at all."""
    if reward_models is None or len(reward_models) == 0:
        return None
    entries = list(reward_models)
    if set(map(type, entries)) == {dict}:
        return [entry.get("ground_truth") for entry in entries]
    return [entry.get("ground_truth") if isinstance(entry, Mapping) else None for entry in entries]


def without_repeated_score(extras: dict[str, Any], scores: Any) -> dict[str, Any]:
    """Take out the extra `score` where it repeats the trainer's: verl's reward loop adds it to every dict.

    Compared in float32, in which the trainer keeps its scores. Where it differs it stays an extra of its own.
    """
    if "score" not in extras or scores is None:
        return extras
    try:
        ours = np.asarray(present(scores), dtype=np.float32)
        theirs = np.asarray(extras["score"], dtype=np.float32)
    except (TypeError, ValueError):  # not numbers, so not a repetition
        return extras
    if ours.shape == theirs.shape and np.array_equal(ours, theirs, equal_nan=True):
        return {name: values for name, values in extras.items() if name != "score"}
    return extras
