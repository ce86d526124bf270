"""Would a user's dump work? Every check that can be made before a training is started.

The checks run verl's real config app in a process of its own, with the arguments that the user would give to
`python -m verl.trainer.main_ppo`, so that what is found is what would happen.
"""

from verl_rollout_dump.doctor.checks import Check, examine

__all__ = ["Check", "examine"]
