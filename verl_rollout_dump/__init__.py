"""Correct, typed, crash-safe JSONL dumps of reinforcement-learning rollouts.

    from verl_rollout_dump import RolloutBatch, RolloutDumpCallback

    with RolloutDumpCallback.from_config({"path": {"dir": "out"}}) as dump:
        dump.on_rollout_end(RolloutBatch(step=1, prompts=["2+2="], responses=["4"], scores=[1.0]))

verl finds this package by itself: `trainer.rollout_data_dir=DIR` is enough there.
"""

from verl_rollout_dump.callback import RolloutDumpCallback
from verl_rollout_dump.config import ConfigError, load_config
from verl_rollout_dump.errors import DumpError
from verl_rollout_dump.hooks import RolloutCallback, register_callback
from verl_rollout_dump.report import DumpReport
from verl_rollout_dump.rollouts import BatchError, RolloutBatch
from verl_rollout_dump.version import __version__

__all__ = [
    "BatchError",
    "ConfigError",
    "DumpError",
    "DumpReport",
    "RolloutBatch",
    "RolloutCallback",
    "RolloutDumpCallback",
    "__version__",
    "load_config",
    "register_callback",
]
