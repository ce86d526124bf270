"""Correct, typed, crash-safe JSONL dumps of reinforcement-learning rollouts.

    from verl_rollout_dump import RolloutBatch, RolloutDumpCallback

    with RolloutDumpCallback.from_config({"path": {"dir": "out"}}) as dump:
        dump.on_rollout_end(RolloutBatch(step=1, prompts=["2+2="], responses=["4"], scores=[1.0]))

verl finds this package by itself: `trainer.rollout_data_dir=DIR` is enough there.
"""

import importlib
from typing import TYPE_CHECKING, Any

from verl_rollout_dump.version import __version__

if TYPE_CHECKING:
    from verl_rollout_dump.batch.rollout_batch import BatchError, RolloutBatch
    from verl_rollout_dump.config import ConfigError, load_config
    from verl_rollout_dump.dump.callback import RolloutDumpCallback
    from verl_rollout_dump.dump.report import DumpReport
    from verl_rollout_dump.errors import DumpError
    from verl_rollout_dump.hooks import RolloutCallback, register_callback
    from verl_rollout_dump.serialization import register_rule

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
    "register_rule",
]

# Modules of `former_paths` keep the import paths of earlier releases.
__path__ = [*__path__, f"{__path__[0]}/former_paths"]

# Imported when they are asked for: this package is loaded into every Ray process and by every call of the command.
MODULES = {
    "BatchError": "batch.rollout_batch",
    "ConfigError": "config",
    "DumpError": "errors",
    "DumpReport": "dump.report",
    "RolloutBatch": "batch.rollout_batch",
    "RolloutCallback": "hooks",
    "RolloutDumpCallback": "dump.callback",
    "load_config": "config",
    "register_callback": "hooks",
    "register_rule": "serialization",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use (PEP 562)."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
