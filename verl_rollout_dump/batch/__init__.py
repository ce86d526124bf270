"""What a trainer hands over: the rollouts of one step, as a `RolloutBatch` or as a `RolloutSource` to be read later."""
