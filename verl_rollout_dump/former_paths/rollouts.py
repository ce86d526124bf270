"""Now `verl_rollout_dump.batch`."""

from verl_rollout_dump.batch.columns import columns_of
from verl_rollout_dump.batch.rollout_batch import BatchError, RolloutBatch

__all__ = ["BatchError", "RolloutBatch", "columns_of"]
