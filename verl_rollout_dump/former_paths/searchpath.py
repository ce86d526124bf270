"""Now `verl_rollout_dump.config.searchpath`."""

from verl_rollout_dump.config.searchpath import RolloutDumpSearchPath, conf_location, register_search_path

__all__ = ["RolloutDumpSearchPath", "conf_location", "register_search_path"]
