"""Dumps of TRL's trainers: `dump_rollouts(trainer, config)`, see `trainer`."""

from verl_rollout_dump.integrations.trl.trainer import dump_rollouts

__all__ = ["dump_rollouts"]
