"""The dump itself: from a batch of rollouts to the lines of a step's file."""
