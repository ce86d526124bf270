"""A clean copy of a dump, and a report of every change. The dump itself is never touched.

    from verl_rollout_dump.analysis.repair import repair_dump

    report = repair_dump(open_dump("outputs/rollouts"), Path("outputs/clean"))

What is done: torn and other unreadable lines are left out (and listed), bare NaN and Infinity become null, text that
is not UTF-8 gets U+FFFD, BOMs and carriage returns go, numbers, booleans and whole tensors that `default=str` made
text come back where their field allows no other reading. Lines that need nothing are copied byte for byte.
"""

from verl_rollout_dump.analysis.repair.copying import RepairReport, repair_dump
from verl_rollout_dump.analysis.repair.plan import RepairPlan, plan_repair

__all__ = ["RepairPlan", "RepairReport", "plan_repair", "repair_dump"]
