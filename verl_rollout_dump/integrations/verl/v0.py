"""The rollouts of verl's v0 trainers (`verl/trainer/ppo/ray_trainer.py`): a DataProto of padded tensors.

Nothing of it is changed. Masks and scores are computed by whoever reads them first.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from verl_rollout_dump import native
from verl_rollout_dump.batch.deferred import deferred_rows, resolved
from verl_rollout_dump.batch.host_copies import is_elsewhere, on_host
from verl_rollout_dump.batch.outcomes import outcomes_of_masks
from verl_rollout_dump.batch.rollout_batch import RolloutBatch
from verl_rollout_dump.config import DumpConfig
from verl_rollout_dump.dump.whitelist import matches_any
from verl_rollout_dump.integrations.verl.common import ground_truths, has_outcomes, without_repeated_score

# `fields.trainer`: name of the field -> where v0 has it in `non_tensor_batch`.
V0_TRAINER_FIELDS = {
    "data_source": "data_source",
    "num_turns": "__num_turns__",
    "min_global_steps": "min_global_steps",
    "max_global_steps": "max_global_steps",
    "raw_prompt": "raw_prompt",
}

# From how many numbers on torch shares a sum among its threads (at::internal::GRAIN_SIZE), and when that is faster.
_SHARED_FROM, WORTH_SHARING = 1 << 15, 1 << 22


class V0Adapter:
    """Reads the batches of v0's trainers, which are in the process of the trainer."""

    def read(self, trainer: Any, config: DumpConfig, columns: Mapping[str, Any]) -> RolloutBatch:
        """Return the rollouts of a DataProto."""
        return _v0_rollouts(trainer, config, columns["batch"], columns["reward_extra_infos_dict"])

    def source(self, trainer: Any, columns: Mapping[str, Any]) -> None:
        """Return None: the batch is here already."""


def _v0_rollouts(trainer: Any, config: DumpConfig, batch: Any, reward_extras: Mapping[str, Any]) -> RolloutBatch:
    """Read a DataProto: prompts (n, p) padded on the left, responses (n, r) padded on the right.

    Every row is a rollout: v0's trainers only reorder a batch, in all releases. A row whose `response_mask` is zero
    throughout was rejected (`rollout_correction.rollout_rs`) or is empty, and is written like any other.
    """
    tensors, others = dict(batch.batch.items()), batch.non_tensor_batch
    prompts, responses = tensors["prompts"], tensors["responses"]
    prompt_mask, response_mask = _token_masks(tensors, len(responses), prompts.shape[1])
    scores = deferred_rows(len(responses), row_sums, tensors["token_level_scores"])
    return RolloutBatch(
        step=trainer.global_steps,
        prompts=prompts,
        responses=responses,
        scores=scores,
        ground_truths=ground_truths(others.get("reward_model")),
        extras=_whole_extras(without_repeated_score(dict(reward_extras), scores), others),
        prompt_mask=prompt_mask,
        response_mask=response_mask,
        log_probs=tensors.get("rollout_log_probs"),
        uids=others.get("uid"),
        request_ids=others.get("request_id"),  # verl-project/verl#6250: it was put into another dict and lost
        outcomes=_v0_outcomes(trainer.config, tensors, len(responses)),
        trainer_fields=_v0_trainer_fields(config, others, response_mask),
    )


def _v0_outcomes(config: Any, tensors: Mapping[str, Any], n: int) -> Any:
    """Return the outcome of each rollout by its loss mask; None if all rollouts of the run are trained on."""
    loss_mask = tensors.get("response_mask")
    if loss_mask is None or not has_outcomes(config):
        return None
    return deferred_rows(n, outcomes_of_masks, loss_mask)


def _whole_extras(reward_extras: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reward extras with the values that the reward function returned, if the batch still has them.

    verl makes one numpy array of each column, which turns `[1, "a"]` into text, `[True, 2]` into numbers, and cuts
    zero bytes off bytes. Since 0.8 the dicts of the reward function are in the column `reward_extra_info` too.
    """
    returned = others.get("reward_extra_info")
    if returned is None:
        return dict(reward_extras)
    return {
        name: deferred_rows(len(values), _whole_column, name, values, returned) if hasattr(values, "dtype") else values
        for name, values in reward_extras.items()
    }


def _whole_column(name: str, values: Any, returned: Sequence[Any]) -> Any:
    """Return the values of one extra as they were returned; verl's array if it lost nothing, or is not made of them."""
    rows = [row.get(name) if isinstance(row, Mapping) else None for row in returned]
    if values.dtype.kind not in "US" and len(set(map(type, rows))) < 2:
        return values
    try:
        again = np.array(rows)
        is_same = again.dtype == values.dtype and np.array_equal(again, values, equal_nan=again.dtype.kind == "f")
    except (TypeError, ValueError):  # rows that no array can be made of: verl did not make its array of these
        return values
    return rows if is_same else values


def row_sums(values: Any) -> Any:
    """Return `values.sum(-1)` of a tensor (n, length), bit for bit, mostly without torch.

    A reward usually stands alone in its row, and then it is the sum. Otherwise a small tensor is summed on this thread:
    torch's threads spin when they have done their share, so two of them take 5.7 ms, and 9.4 ms of CPU, for what one
    thread does in 0.7 ms (1024 x 2048 float32).
    """
    lone = _lone_numbers(values)
    if lone is not None:
        return lone
    length = values.shape[-1]
    is_small = 0 < length < _SHARED_FROM and 0 < values.numel() <= WORTH_SHARING
    if not is_small or not values.is_contiguous() or values.device.type != "cpu":
        return values.sum(-1)
    sums = [rows.sum(-1) for rows in values.split((_SHARED_FROM - 1) // length)]
    return importlib.import_module("torch").cat(sums)


def _lone_numbers(values: Any) -> Any:
    """Return the one nonzero number of each row of a tensor (n, length); None if a row has several."""
    torch, lib = importlib.import_module("torch"), native.library
    if lib is None or is_elsewhere(values) or values.dtype != torch.float32 or not values.shape[-1]:
        return None
    numbers = on_host(values)
    starts, stops = native.nonzero_bounds(lib, numbers)
    if (stops - starts).max(initial=0) > 1:
        return None
    return torch.from_numpy(numbers[np.arange(len(numbers)), starts] + 0)  # -0.0 + 0 is 0.0, as in a sum


def _v0_trainer_fields(config: DumpConfig, others: Mapping[str, Any], response_mask: Any) -> dict[str, Any]:
    """Return what `fields.trainer` asks for and a DataProto has."""
    wanted = config.fields.trainer
    found = {
        name: others[key] for name, key in V0_TRAINER_FIELDS.items() if key in others and matches_any(name, wanted)
    }
    if response_mask is not None and matches_any("response_length", wanted):
        found["response_length"] = (resolved(response_mask) != 0).sum(-1)
    return found


def _token_masks(tensors: Mapping[str, Any], n: int, prompt_length: int) -> tuple[Any, Any]:
    """Return which tokens of the n prompts and of the responses are real, both None if the trainer does not know.

    The trainer's `response_mask` does not tell: it is made for the loss, and is zero on tool output and on rejected
    rows too.
    """
    attention_mask = tensors.get("attention_mask")
    if attention_mask is None:
        return None, None
    return (
        deferred_rows(n, mask_of_prompts, attention_mask, prompt_length),
        deferred_rows(n, mask_of_responses, attention_mask, prompt_length),
    )


def mask_of_prompts(attention_mask: Any, prompt_length: int) -> Any:
    """Return which tokens of the prompts are real."""
    return _shared_array(attention_mask)[:, :prompt_length]


def mask_of_responses(attention_mask: Any, prompt_length: int) -> Any:
    """Return which tokens of the responses are real."""
    return _shared_array(attention_mask)[:, prompt_length:]


def _shared_array(mask: Any) -> Any:
    """Return a padded mask in host memory as an array that shares it: slicing an array costs a tenth of a tensor's."""
    stays = is_elsewhere(mask) or getattr(mask, "is_nested", False)
    return mask if stays else on_host(mask)
