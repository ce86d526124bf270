"""The rollouts of verl's v1 trainers (`verl/trainer/ppo/v1/trainer_base.py`): keys of what lies in TransferQueue."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from verl_rollout_dump.batch.rollout_batch import RolloutBatch, columns_of
from verl_rollout_dump.batch.source import bounds
from verl_rollout_dump.config import DumpConfig
from verl_rollout_dump.dump.fields import CORE, TOKENS, is_glob, is_whitelisted, matches_any
from verl_rollout_dump.integrations.verl.common import ground_truths, without_repeated_score


@dataclass(frozen=True)
class TransferQueueSource:
    """Keys in TransferQueue, with their tags. A process of the same Ray cluster reads what they stand for."""

    step: int
    partition_id: str
    keys: Sequence[str]
    tags: Sequence[Mapping[str, Any]]

    def split(self, parts: int) -> list[TransferQueueSource]:
        """Return the same rollouts in so many parts, in the order of their keys."""
        tags = dict(zip(self.keys, self.tags, strict=True))
        real = sorted((key for key in self.keys if not tags[key].get("is_padding")), key=key_order)
        pieces = [real[first:last] for first, last in bounds(len(real), parts)]
        return [replace(self, keys=keys, tags=[tags[key] for key in keys]) for keys in pieces]

    def read(self, config: DumpConfig) -> RolloutBatch:
        """Return the rollouts, with what the dump needs of each."""
        trainer = SimpleNamespace(global_steps=self.step)
        batch = SimpleNamespace(keys=list(self.keys), tags=list(self.tags), partition_id=self.partition_id)
        return v1_rollouts(trainer, config, batch, v1_fields_of_dump(config))


def transfer_queue_source(trainer: Any, batch: Any) -> TransferQueueSource:
    """Describe the batch that the v1 trainer hands to `_log_rollout_data`: a KVBatchMeta."""
    tags = batch.tags or [{}] * len(batch.keys)
    return TransferQueueSource(trainer.global_steps, batch.partition_id, list(batch.keys), [dict(tag) for tag in tags])


# What is asked of TransferQueue where a callback may look at everything, and what only with `fields.tokens`.
V1_FIELDS = ("prompts", "responses", "rm_scores", "reward_model", "extra_fields")
V1_TOKEN_FIELDS = ("rollout_log_probs",)
# `fields.trainer`: columns of TransferQueue, and entries of each rollout's tag.
V1_TRAINER_FIELDS = ("data_source", "num_turns", "raw_prompt")
V1_TAGS = {
    "response_length": "response_len",
    "min_global_steps": "min_global_steps",
    "max_global_steps": "max_global_steps",
}


def v1_fields_of_dump(config: DumpConfig) -> tuple[str, ...]:
    """Return what the dump needs of `V1_FIELDS`, by its whitelist."""
    known = {*CORE, "uid", *TOKENS, *(name for name in V1_TRAINER_FIELDS if matches_any(name, config.fields.trainer))}
    has_extras = any(is_glob(name) or name not in known for name in config.fields.include)
    unwanted = {
        "rm_scores": not has_extras and not is_whitelisted("score", config.fields),  # an extra may repeat the score
        "reward_model": not is_whitelisted("gts", config.fields),
        "extra_fields": not has_extras,
    }
    return tuple(name for name in V1_FIELDS if not unwanted.get(name))


def v1_rollouts(trainer: Any, config: DumpConfig, batch: Any, wanted: Sequence[str] = V1_FIELDS) -> RolloutBatch:
    """Read what a KVBatchMeta names out of TransferQueue, in one call, before the trainer clears it.

    Rows whose tag says `is_padding` are left out: they are copies that make the batch divide evenly. The order is
    that of the keys `{uid}_{session}_{output}`, numbers by value.
    """
    transfer_queue = importlib.import_module("transfer_queue")
    tags = dict(zip(batch.keys, batch.tags or [{}] * len(batch.keys), strict=True))
    keys = sorted((key for key, tag in tags.items() if not tag.get("is_padding")), key=key_order)
    besides = [name for name in V1_TRAINER_FIELDS if matches_any(name, config.fields.trainer)]
    fields = [*wanted, *(V1_TOKEN_FIELDS if config.fields.tokens else ()), *besides]
    if not keys:
        return RolloutBatch(step=trainer.global_steps, prompts=[], responses=[], scores=[])
    data = transfer_queue.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=fields)
    scores = data["rm_scores"].sum(dim=1) if "rm_scores" in data.keys() else None  # noqa: SIM118 (a TensorDict)
    extras = columns_of([reward_extras(row) for row in rows_of(data, "extra_fields")])
    return RolloutBatch(
        step=trainer.global_steps,
        prompts=data["prompts"],
        responses=data["responses"],
        scores=scores,
        ground_truths=ground_truths(rows_of(data, "reward_model")),
        extras=without_repeated_score(extras, scores),
        log_probs=data.get("rollout_log_probs") if config.fields.tokens else None,
        uids=keys,
        trainer_fields={name: rows_of(data, name) for name in besides if name in data.keys()}  # noqa: SIM118
        | v1_tags(config, [tags[key] for key in keys]),
    )


def v1_tags(config: DumpConfig, tags: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return what `fields.trainer` asks for and the rollouts' tags have."""
    wanted = {name: key for name, key in V1_TAGS.items() if matches_any(name, config.fields.trainer)}
    return {name: [tag.get(key) for tag in tags] for name, key in wanted.items()}


def key_order(key: str) -> tuple[str, int, int]:
    """Order `u_0_10` after `u_0_2`; a key of another form by its text."""
    parts = key.rsplit("_", 2)
    if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():
        return parts[0], int(parts[1]), int(parts[2])
    return key, 0, 0


def rows_of(data: Any, name: str) -> list[Any]:
    """Return a column of Python objects as a list; empty where TransferQueue has no such field."""
    # list(), since the container that TransferQueue returns for dicts has no tolist()
    return list(data[name]) if name in data.keys() else []  # noqa: SIM118 (a TensorDict)


def reward_extras(extra_fields: Any) -> Mapping[str, Any] | None:
    """Return what the reward function added to one rollout (verl-project/verl#7588: the v1 trainer drops it)."""
    found = extra_fields.get("reward_extra_info") if isinstance(extra_fields, Mapping) else None
    return found if isinstance(found, Mapping) else None
