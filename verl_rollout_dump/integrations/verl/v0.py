"""The rollouts of verl's v0 trainers (`verl/trainer/ppo/ray_trainer.py`): a DataProto of padded tensors.

Nothing of it is changed. Masks and scores are left to whoever asks for them first.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from verl_rollout_dump import native
from verl_rollout_dump.batch.deferred import late_rows, present
from verl_rollout_dump.batch.host_copies import is_elsewhere, on_host
from verl_rollout_dump.batch.rollout_batch import RolloutBatch
from verl_rollout_dump.config import DumpConfig
from verl_rollout_dump.dump.fields import matches_any
from verl_rollout_dump.dump.sampling import real_rows
from verl_rollout_dump.integrations.verl.common import ground_truths, without_repeated_score

# `fields.trainer`: name of the field -> where v0 has it in `non_tensor_batch`.
V0_TRAINER_FIELDS = {
    "data_source": "data_source",
    "num_turns": "__num_turns__",
    "min_global_steps": "min_global_steps",
    "max_global_steps": "max_global_steps",
    "raw_prompt": "raw_prompt",
}

# Numbers of which torch shares a sum among its threads (at::internal::GRAIN_SIZE), and above which that is faster.
SHARED_FROM, WORTH_SHARING = 1 << 15, 1 << 22


def v0_rollouts(
    trainer: Any, config: DumpConfig, batch: Any, reward_extra_infos_dict: Mapping[str, Any]
) -> RolloutBatch:
    """Read a DataProto: prompts (n, p) padded on the left, responses (n, r) padded on the right.

    Scores and masks are left to whoever asks for them first; the trainer has done with the tensors behind them.
    """
    tensors, others = dict(batch.batch.items()), batch.non_tensor_batch
    prompts, responses = tensors["prompts"], tensors["responses"]
    prompt_mask, response_mask = token_masks(tensors, len(responses), prompts.shape[1])
    scores = late_rows(len(responses), row_sums, tensors["token_level_scores"])
    extras = dict(reward_extra_infos_dict)
    if "request_id" in others:  # verl-project/verl#6250: it was put into another dict and lost
        extras.setdefault("request_id", others["request_id"])
    return RolloutBatch(
        step=trainer.global_steps,
        prompts=prompts,
        responses=responses,
        scores=scores,
        ground_truths=ground_truths(others.get("reward_model")),
        extras=without_repeated_score(extras, scores),
        prompt_mask=prompt_mask,
        response_mask=response_mask,
        log_probs=tensors.get("rollout_log_probs"),
        uids=others.get("uid"),
        trainer_fields=v0_trainer_fields(config, others, response_mask),
    )


def row_sums(values: Any) -> Any:
    """Return `values.sum(-1)` of a tensor (n, length), bit for bit, mostly without torch.

    A reward stands alone in its row as a rule, and then it is the sum. Else a small tensor is summed on this thread:
    the threads of torch spin when they have done their share, so that two of them take 5.7 ms, and 9.4 ms of CPU, for
    what one does in 0.7 ms (1024 x 2048 float32).
    """
    lone = lone_numbers(values)
    if lone is not None:
        return lone
    length = values.shape[-1]
    is_small = 0 < length < SHARED_FROM and 0 < values.numel() <= WORTH_SHARING
    if not is_small or not values.is_contiguous() or values.device.type != "cpu":
        return values.sum(-1)
    sums = [rows.sum(-1) for rows in values.split((SHARED_FROM - 1) // length)]
    return importlib.import_module("torch").cat(sums)


def lone_numbers(values: Any) -> Any:
    """Return the one number of each row of a tensor (n, length) that is not zero; None where a row has several."""
    torch, lib = importlib.import_module("torch"), native.library
    if lib is None or is_elsewhere(values) or values.dtype != torch.float32 or not values.shape[-1]:
        return None
    numbers = on_host(values)
    starts, stops = native.nonzero_bounds(lib, numbers)
    if (stops - starts).max(initial=0) > 1:
        return None
    return torch.from_numpy(numbers[np.arange(len(numbers)), starts] + 0)  # -0.0 + 0 is 0.0, as in a sum


def v0_trainer_fields(config: DumpConfig, others: Mapping[str, Any], response_mask: Any) -> dict[str, Any]:
    """Return what `fields.trainer` asks for and a DataProto has."""
    wanted = config.fields.trainer
    found = {
        name: others[key] for name, key in V0_TRAINER_FIELDS.items() if key in others and matches_any(name, wanted)
    }
    if response_mask is not None and matches_any("response_length", wanted):
        found["response_length"] = (present(response_mask) != 0).sum(-1)
    return found


def token_masks(tensors: Mapping[str, Any], n: int, prompt_length: int) -> tuple[Any, Any]:
    """Return which tokens are real, of the n prompts and of the responses; padding rows are zero throughout.

    `response_mask` itself will not do: it is made for the loss, and is zero on tool output too.
    """
    attention_mask, loss_mask = tensors.get("attention_mask"), tensors.get("response_mask")
    if attention_mask is None:
        return None, loss_mask
    return (
        late_rows(n, mask_of_prompts, attention_mask, prompt_length),
        late_rows(n, mask_of_responses, attention_mask, prompt_length, loss_mask),
    )


def mask_of_prompts(attention_mask: Any, prompt_length: int) -> Any:
    """Return which tokens of the prompts are real."""
    return shared_array(attention_mask)[:, :prompt_length]


def mask_of_responses(attention_mask: Any, prompt_length: int, loss_mask: Any) -> Any:
    """Return which tokens of the responses are real: none in rows that the loss leaves out."""
    response_mask = shared_array(attention_mask)[:, prompt_length:]
    n = len(response_mask)
    real = real_rows(shared_array(loss_mask), n)
    if len(real) < n:
        response_mask = response_mask.copy() if isinstance(response_mask, np.ndarray) else response_mask.clone()
        response_mask[sorted(set(range(n)).difference(real))] = 0
    return response_mask


def shared_array(mask: Any) -> Any:
    """Return a padded mask in host memory as an array that shares it: a slice of one costs a tenth of a tensor's."""
    stays = mask is None or is_elsewhere(mask) or getattr(mask, "is_nested", False)
    return mask if stays else on_host(mask)
