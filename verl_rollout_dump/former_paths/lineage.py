"""Now `verl_rollout_dump.storage.lineage`."""

from verl_rollout_dump.storage.lineage import lineage, lineage_parts, missing_parts, superseded_files

__all__ = ["lineage", "lineage_parts", "missing_parts", "superseded_files"]
