"""Now `verl_rollout_dump.batch.rollout_batch`."""

from verl_rollout_dump.batch.rollout_batch import BatchError, RolloutBatch, columns_of

__all__ = ["BatchError", "RolloutBatch", "columns_of"]
