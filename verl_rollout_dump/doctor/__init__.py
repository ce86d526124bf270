"""Check, before a training is started, whether its dump would work.

With verl the checks run its real config app in a process of its own, with the arguments that the user would give to
`python -m verl.trainer.main_ppo`. Without verl they check what plain Python and TRL need.
"""

from verl_rollout_dump.doctor.checks import Check, examine

__all__ = ["Check", "examine"]
