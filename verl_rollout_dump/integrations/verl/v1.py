"""The rollouts of verl's v1 trainers (`verl/trainer/ppo/v1/trainer_base.py`), which lie in TransferQueue."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from verl_rollout_dump.batch.columns import columns_of
from verl_rollout_dump.batch.deferred import deferred_rows
from verl_rollout_dump.batch.outcomes import outcomes_of_masks
from verl_rollout_dump.batch.rollout_batch import RolloutBatch
from verl_rollout_dump.config import DumpConfig
from verl_rollout_dump.dump.fields import CORE, TOKENS
from verl_rollout_dump.dump.whitelist import OUTCOME, is_glob, is_whitelisted, matches_any
from verl_rollout_dump.integrations.verl.common import ground_truths, has_outcomes, without_repeated_score
from verl_rollout_dump.storage.run_record import ROLLOUT_UIDS

# What is read from TransferQueue if a callback may look at everything, and what only with `fields.tokens`.
V1_FIELDS = ("prompts", "responses", "rm_scores", "reward_model", "extra_fields")
_V1_TOKEN_FIELDS = ("rollout_log_probs",)
_V1_LOSS_MASK = "response_mask"  # read if a rollout can have another outcome than `trained`
# `fields.trainer`: columns of TransferQueue, and entries of each rollout's tag.
V1_TRAINER_FIELDS = ("data_source", "num_turns", "raw_prompt")
V1_TAGS = {
    "response_length": "response_len",
    "min_global_steps": "min_global_steps",
    "max_global_steps": "max_global_steps",
}


class V1Adapter:
    """Reads the batches of v1's trainers: a KVBatchMeta, which names keys in TransferQueue."""

    def read(self, trainer: Any, config: DumpConfig, columns: Mapping[str, Any]) -> RolloutBatch:
        """Return the rollouts with everything that a callback may look at."""
        source = self.source(trainer, columns)
        return _read_rollouts(source, config, (*V1_FIELDS, *source.loss_mask))

    def source(self, trainer: Any, columns: Mapping[str, Any]) -> _TransferQueueSource:
        """Return the keys of the rollouts in the order of the records, numbers in them by value.

        Rows whose tag says `is_padding` are left out and counted: they are copies that make the batch divide evenly.
        """
        batch = columns["batch"]
        tags = dict(zip(batch.keys, batch.tags or [{}] * len(batch.keys), strict=True))
        real = sorted((key for key, tag in tags.items() if not tag.get("is_padding")), key=_key_order)
        return _TransferQueueSource(
            step=trainer.global_steps,
            partition_id=batch.partition_id,
            uids=real,
            tags=[dict(tags[key]) for key in real],
            padding_rows=len(tags) - len(real),
            has_outcomes=has_outcomes(trainer.config),
        )


@dataclass(frozen=True)
class _TransferQueueSource:
    """Keys in TransferQueue, with their tags. Any process of the same Ray cluster can read the rollouts behind them."""

    step: int
    partition_id: str
    # The n keys `{uid}_{session}_{output}`, and the tag of each.
    uids: Sequence[str]
    tags: Sequence[Mapping[str, Any]]
    padding_rows: int = 0
    # Whether a rollout of the run can have another outcome than `trained`.
    has_outcomes: bool = False

    @property
    def loss_mask(self) -> tuple[str, ...]:
        """The column that tells the outcomes; none if all rollouts of the run are trained on."""
        return (_V1_LOSS_MASK,) if self.has_outcomes else ()

    def take(self, rows: Sequence[int]) -> _TransferQueueSource:
        """Return a source of the chosen rollouts; the padding rows are not counted again."""
        uids, tags = [self.uids[row] for row in rows], [self.tags[row] for row in rows]
        return replace(self, uids=uids, tags=tags, padding_rows=0)

    def read(self, config: DumpConfig) -> RolloutBatch:
        """Return the rollouts with the columns that the dump writes."""
        masks = self.loss_mask if is_whitelisted(OUTCOME, config.fields) else ()
        return _read_rollouts(self, config, (*_v1_fields_of_dump(config), *masks))


def _v1_fields_of_dump(config: DumpConfig) -> tuple[str, ...]:
    """Return those of `V1_FIELDS` that the dump needs for the fields that it writes."""
    known = {
        *CORE,
        "uid",
        OUTCOME,
        *TOKENS,
        *(name for name in V1_TRAINER_FIELDS if matches_any(name, config.fields.trainer)),
    }
    has_extras = any(is_glob(name) or name not in known for name in config.fields.include)
    unwanted = {
        "rm_scores": not has_extras and not is_whitelisted("score", config.fields),  # an extra may repeat the score
        "reward_model": not is_whitelisted("gts", config.fields),
        "extra_fields": not has_extras,
    }
    return tuple(name for name in V1_FIELDS if not unwanted.get(name))


def _read_rollouts(source: _TransferQueueSource, config: DumpConfig, wanted: Sequence[str]) -> RolloutBatch:
    """Read rollouts out of TransferQueue in one call, before the trainer clears it.

    `wanted` are those of `V1_FIELDS` that are read, and maybe the loss mask; `fields.tokens` and `fields.trainer` add
    theirs.
    """
    step, padding = source.step, source.padding_rows
    if not source.uids:
        return RolloutBatch(step=step, prompts=[], responses=[], scores=[], padding_rows=padding)
    transfer_queue = importlib.import_module("transfer_queue")
    besides = [name for name in V1_TRAINER_FIELDS if matches_any(name, config.fields.trainer)]
    fields = [*wanted, *(_V1_TOKEN_FIELDS if config.fields.tokens else ()), *besides]
    data = transfer_queue.kv_batch_get(keys=list(source.uids), partition_id=source.partition_id, select_fields=fields)
    scores = data["rm_scores"].sum(dim=1) if "rm_scores" in data.keys() else None  # noqa: SIM118 (a TensorDict)
    extras = columns_of([_reward_extras(row) for row in _rows_of(data, "extra_fields")])
    return RolloutBatch(
        step=step,
        prompts=data["prompts"],
        responses=data["responses"],
        scores=scores,
        ground_truths=ground_truths(_rows_of(data, "reward_model")),
        extras=without_repeated_score(extras, scores),
        log_probs=data.get("rollout_log_probs") if config.fields.tokens else None,
        uids=list(source.uids),
        uid_form=ROLLOUT_UIDS,
        outcomes=_outcomes(data.get(_V1_LOSS_MASK) if _V1_LOSS_MASK in wanted else None),
        trainer_fields={name: _rows_of(data, name) for name in besides if name in data.keys()}  # noqa: SIM118
        | _v1_tags(config, source.tags),
        padding_rows=padding,
    )


def _outcomes(loss_mask: Any) -> Any:
    """Return the outcome of each rollout; None without a loss mask."""
    return None if loss_mask is None else deferred_rows(len(loss_mask), outcomes_of_masks, loss_mask)


def _v1_tags(config: DumpConfig, tags: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the columns of `fields.trainer` that the rollouts' tags have."""
    wanted = {name: key for name, key in V1_TAGS.items() if matches_any(name, config.fields.trainer)}
    return {name: [tag.get(key) for tag in tags] for name, key in wanted.items()}


def _key_order(key: str) -> tuple[str, int, int]:
    """Order `u_0_10` after `u_0_2`; a key of another form by its text."""
    parts = key.rsplit("_", 2)
    if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():
        return parts[0], int(parts[1]), int(parts[2])
    return key, 0, 0


def _rows_of(data: Any, name: str) -> list[Any]:
    """Return a column of Python objects as a list; empty where TransferQueue has no such field."""
    # list(), since the container that TransferQueue returns for dicts has no tolist()
    return list(data[name]) if name in data.keys() else []  # noqa: SIM118 (a TensorDict)


def _reward_extras(extra_fields: Any) -> Mapping[str, Any] | None:
    """Return what the reward function added to one rollout (verl-project/verl#7588: the v1 trainer drops it)."""
    found = extra_fields.get("reward_extra_info") if isinstance(extra_fields, Mapping) else None
    return found if isinstance(found, Mapping) else None
