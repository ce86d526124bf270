"""Read TRL's structures into rollouts, and rollouts into a `RolloutBatch`. Imports neither torch nor TRL.

`_calculate_rewards` returns the rewards as one float32 tensor (rollouts of all processes, reward functions), with NaN
where a function returned None. Advantages and token ids are in the inputs of the loss. Responses are read as ids and
without their mask, since `mask_truncated_completions` zeroes the masks of truncated responses.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from verl_rollout_dump.batch.columns import columns_of
from verl_rollout_dump.batch.rollout_batch import RolloutBatch, Split

_ROLLOUT_COLUMNS = (
    "prompt",
    "completion",
    "completion_ids",
)  # not passed on to reward functions
_Column: TypeAlias = "tuple[str, Sequence[Any]]"  # a name and one value per rollout of this process


@dataclass
class Rollout:
    """One rollout, as the process that generated it sends it to the main process."""

    prompt_ids: Any
    response_ids: Any
    score: Any
    ground_truth: Any
    extras: dict[str, Any]
    log_probs: Any


@dataclass
class Scored:
    """The arguments of `_calculate_rewards`, for this process, and its result, `rewards`, for all processes."""

    inputs: Sequence[Mapping[str, Any]]
    prompts: Sequence[Any]
    completions: Sequence[Any]
    response_ids: Sequence[Sequence[int]]
    rewards: Any
    logged: Mapping[str, Sequence[Any]]  # what reward functions passed to `log_extra`


@dataclass
class Reading:
    """How rollouts are read: the user's options and the current evaluation."""

    ground_truths: Sequence[str]
    tokens: bool
    eval_dataset: str | None
    note: Callable[[str], None]  # logs a warning that would be repeated with every batch


def read_rollouts(trainer: Any, scored: Scored, output: Mapping[str, Any], reading: Reading) -> list[Rollout]:
    """Return the rollouts of this process, from what TRL scored and from `output`, the inputs of the loss."""
    n, process = len(scored.prompts), trainer.accelerator.process_index
    own = slice(process * n, (process + 1) * n)
    scores = _numbers(_weighted_sum(scored.rewards, trainer.reward_weights)[own])
    data = columns_of(scored.inputs)
    truth = data.pop(next((name for name in reading.ground_truths if name in data), ""), [None] * n)
    rewards = {i: _numbers(scored.rewards[own, i]) for i in range(scored.rewards.shape[1])}
    columns: list[_Column] = [(name, rewards[i]) for i, name in enumerate(trainer.reward_func_names)]
    columns += [("advantage", _numbers(output["advantages"])), *logged_columns(scored, reading)]
    columns += [*_message_columns(scored), *_data_columns(data, reading, n)]
    extras = under_own_names(columns, reading)
    prompt_ids, prompt_mask = _on_host(output["prompt_ids"]), _on_host(output["prompt_mask"])
    log_probs = output.get("sampling_per_token_logps") if reading.tokens else None
    return [
        Rollout(
            prompt_ids=prompt_ids[row][prompt_mask[row] != 0],
            response_ids=np.asarray(ids, dtype=np.int64),
            score=score,
            ground_truth=truth[row],
            extras={name: values[row] for name, values in extras.items()},
            log_probs=None if log_probs is None else _on_host(log_probs[row])[: len(ids)],
        )
        for row, (ids, score) in enumerate(zip(scored.response_ids, scores, strict=True))
    ]


def _weighted_sum(rewards: Any, weights: Any) -> Any:
    """Return each rollout's reward as TRL computes it; NaN if no function returned one."""
    weighted = (rewards * weights.to(rewards.device).unsqueeze(0)).nansum(dim=1)
    return weighted.masked_fill(rewards.isnan().all(dim=1), float("nan"))


def logged_columns(scored: Scored, reading: Reading) -> list[_Column]:
    """Return what reward functions passed to `log_extra`; a column of the wrong length is noted and left out."""
    n = len(scored.prompts)
    for name, values in scored.logged.items():
        if len(values) != n:
            reading.note(f"log_extra was given {len(values)} values of {name!r} for {n} rollouts: they are left out")
    return [(name, values) for name, values in scored.logged.items() if len(values) == n]


def _message_columns(scored: Scored) -> list[_Column]:
    """Return the messages of conversations. Plain text needs no column: it is in `input` and `output`."""
    columns = (("prompt", scored.prompts), ("completion", scored.completions))
    return [(name, values) for name, values in columns if not isinstance(values[0], str)]


def _data_columns(data: Mapping[str, Sequence[Any]], reading: Reading, n: int) -> list[_Column]:
    """Return the remaining columns of the dataset and, if there are several, the name of the dataset."""
    named = [] if reading.eval_dataset is None else [("eval_dataset", [reading.eval_dataset] * n)]
    return [*named, *((name, values) for name, values in data.items() if name not in _ROLLOUT_COLUMNS)]


def under_own_names(columns: Sequence[_Column], reading: Reading) -> dict[str, Sequence[Any]]:
    """Return the columns by name; if two have the same name, the later one is renamed."""
    named: dict[str, Sequence[Any]] = {}
    for name, values in columns:
        free = next(free for free in [name, *(f"{name}_{i}" for i in range(2, len(columns) + 2))] if free not in named)
        if free != name:
            reading.note(
                f"two columns are named {name!r} (reward functions, log_extra, data): the later is written as {free!r}"
            )
        named[free] = values
    return named


def _numbers(values: Any) -> list[Any]:
    """Return a tensor's floats as a list, in their own dtype; None for NaN, which TRL uses for a missing value."""
    return [None if np.isnan(value) else value for value in _on_host(values)]


def _on_host(tensor: Any) -> Any:
    """Return a tensor as a numpy array."""
    host = tensor.detach().cpu()
    return (host.float() if host.is_floating_point() else host).numpy()


def pack(trainer: Any, rollouts: list[Rollout]) -> list[Any]:
    """Pickle rollouts for the main process. An error occurs here, before processes wait for each other."""
    return rollouts if trainer.accelerator.num_processes == 1 else [pickle.dumps(rollout) for rollout in rollouts]


def of_all_processes(trainer: Any, packed: list[Any]) -> list[Rollout]:
    """Return the rollouts of all processes, in the order of the processes. Every process must call this."""
    if trainer.accelerator.num_processes == 1:
        return packed
    accelerate = importlib.import_module("accelerate.utils")
    return [pickle.loads(rollout) for rollout in accelerate.gather_object(packed)]


def batch_of(rollouts: Sequence[Rollout], step: int, split: Split) -> RolloutBatch:
    """Return the batch of a step."""
    has_log_probs = all(rollout.log_probs is not None for rollout in rollouts)
    return RolloutBatch(
        step=step,
        prompts=[rollout.prompt_ids for rollout in rollouts],
        responses=[rollout.response_ids for rollout in rollouts],
        scores=[rollout.score for rollout in rollouts],
        ground_truths=[rollout.ground_truth for rollout in rollouts],
        extras=columns_of([rollout.extras for rollout in rollouts]),
        split=split,
        log_probs=[rollout.log_probs for rollout in rollouts] if has_log_probs else None,
    )
