"""The configuration of the dump: `DumpConfig`, the schema of the `rollout_dump` node, and `load_config`."""

from verl_rollout_dump.config.errors import ConfigError
from verl_rollout_dump.config.loading import load_config
from verl_rollout_dump.config.schema import DumpConfig

__all__ = ["ConfigError", "DumpConfig", "load_config"]
