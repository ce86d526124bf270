"""The name of the rollout backend in verl's config, and what its server needs from that config."""

from __future__ import annotations

from dataclasses import dataclass

ROLLOUT_NAME = "transformers_cpu"  # the value of actor_rollout_ref.rollout.name


@dataclass(frozen=True)
class ServerConfig:
    """The part of verl's config that the rollout server uses."""

    # actor_rollout_ref.model.path: a Hugging Face folder.
    model_path: str
    # actor_rollout_ref.rollout.prompt_length and .response_length, in tokens.
    prompt_length: int
    response_length: int
    # actor_rollout_ref.rollout.max_num_seqs: the most requests in one batch.
    max_batch: int
    # actor_rollout_ref.rollout.seed, plus the rank of the replica.
    seed: int
    # actor_rollout_ref.rollout.ignore_eos.
    ignore_eos: bool = False
