"""Now `verl_rollout_dump.dump.callback`."""

from verl_rollout_dump.dump.callback import RolloutDumpCallback

__all__ = ["RolloutDumpCallback"]
