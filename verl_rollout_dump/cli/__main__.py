"""`python -m verl_rollout_dump.cli` is the command `verl-rollout-dump`."""

from verl_rollout_dump.cli import main

if __name__ == "__main__":  # worker processes import this module again
    main()
