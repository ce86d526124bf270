"""The batch of verl's v1 trainer, which lies in TransferQueue, as a `RolloutSource`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from verl_rollout_dump.config import DumpConfig
from verl_rollout_dump.integrations.verl_v1 import key_order, v1_fields_of_dump, v1_rollouts
from verl_rollout_dump.rollouts import RolloutBatch
from verl_rollout_dump.sources import bounds


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
