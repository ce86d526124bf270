"""verl's two sides of a rollout backend: the replica starts the server, the adapter pushes weights to it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from typing import Any

import numpy as np
import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica
from verl.workers.rollout.utils import ensure_async_iterator

from verl_rollout_dump.verl_cpu.server import GenerationServer
from verl_rollout_dump.verl_cpu.server_config import ROLLOUT_NAME, ServerConfig

_WeightBucket = dict[str, "np.ndarray[Any, Any]"]


def _server_name(replica_rank: int) -> str:
    """Return the name under which Ray knows the policy's server of one replica."""
    return f"{ROLLOUT_NAME}_server_{replica_rank}"


class CpuReplica(RolloutReplica):  # type: ignore[misc]  # verl has no types here
    """One server process for each rank: the model is not split."""

    async def launch_servers(self) -> None:
        """Start the server and wait until its model is loaded."""
        if self.world_size != 1:
            raise ValueError(
                f"The rollout backend {ROLLOUT_NAME} does not split a model over {self.world_size} processes. In "
                "actor_rollout_ref.rollout set tensor_model_parallel_size, data_parallel_size and "
                "pipeline_model_parallel_size to 1."
            )
        config = ServerConfig(
            model_path=str(self.model_config["path"]),
            prompt_length=self.config.prompt_length,
            response_length=self.config.response_length,
            max_batch=self.config.max_num_seqs,
            seed=self.config.seed + self.replica_rank,
            ignore_eos=self.config.ignore_eos,
        )
        # reward models and teachers get no weights, so their servers need no name
        is_policy = not (self.is_reward_model or self.is_teacher_model)
        server = (
            ray.remote(GenerationServer)
            .options(
                name=_server_name(self.replica_rank) if is_policy else None,
                num_cpus=0,
                max_concurrency=self.max_concurrency,
            )
            .remote(config)
        )
        await server.ready.remote()
        self.servers = [server]
        self._server_handle = server
        self._server_address = f"{ROLLOUT_NAME}-{self.replica_rank}{self.name_suffix}"


class WeightPusher(BaseRollout):  # type: ignore[misc]
    """Runs in the trainer's worker process and sends each new version of the weights to the server."""

    def __init__(
        self, config: Any, model_config: Any, device_mesh: Any, *args: Any, replica_rank: int = -1, **kwargs: Any
    ) -> None:
        super().__init__(config, model_config, device_mesh)
        self.replica_rank = int(os.environ["RANK"]) if replica_rank == -1 else replica_rank
        self.is_leader_rank = True

    async def resume(self, tags: list[str]) -> None:
        """Do nothing: nothing was released."""

    async def release(self) -> None:
        """Do nothing: there is no device memory."""

    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]] | AsyncIterator[tuple[str, torch.Tensor]],
        wire_format: str = "named_tensors",
        global_steps: int | None = None,
        peft_config: Any = None,
        **kwargs: Any,
    ) -> None:
        """Send all weights, in parts that fit into the object store. `global_steps` becomes their version."""
        if wire_format != "named_tensors":
            raise NotImplementedError(
                f"The rollout backend {ROLLOUT_NAME} takes whole weights, not {wire_format!r}: set "
                "actor_rollout_ref.rollout.checkpoint_engine.backend=naive."
            )
        if peft_config is not None:
            raise NotImplementedError(
                f"The rollout backend {ROLLOUT_NAME} takes no LoRA adapters: set "
                "actor_rollout_ref.model.lora.merge=true, or lora_rank=0."
            )
        server = ray.get_actor(_server_name(self.replica_rank))
        bucket_bytes = self.config.checkpoint_engine.update_weights_bucket_megabytes << 20
        async for bucket in buckets(weights, bucket_bytes):
            await server.load_weights.remote(bucket)
        await server.finish_weights.remote(global_steps)


async def buckets(
    weights: Iterable[tuple[str, torch.Tensor]] | AsyncIterator[tuple[str, torch.Tensor]], bucket_bytes: int
) -> AsyncIterator[_WeightBucket]:
    """Yield the weights as float32 arrays, gathered until they reach `bucket_bytes`."""
    bucket: _WeightBucket = {}
    gathered = 0
    async for name, tensor in ensure_async_iterator(weights):
        bucket[name] = tensor.detach().cpu().float().numpy()
        gathered += bucket[name].nbytes
        if gathered >= bucket_bytes:
            yield bucket
            bucket, gathered = {}, 0
    if bucket:
        yield bucket
