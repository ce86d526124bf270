"""Make a clean copy of a dump, with a report of every change. The dump itself is never changed.

    from verl_rollout_dump.analysis.repair import repair_dump

    report = repair_dump(open_dump("outputs/rollouts"), Path("outputs/clean"))

Torn and other unreadable lines are left out and listed; bare NaN and Infinity become null; bytes that are not UTF-8
become U+FFFD; BOMs and carriage returns are removed; numbers, booleans and complete tensors that `default=str` turned
into text become values again if their field allows no other interpretation. Good lines are copied byte for byte.
"""

from verl_rollout_dump.analysis.repair.copying import RepairReport, repair_dump
from verl_rollout_dump.analysis.repair.plan import RepairPlan, plan_repair

__all__ = ["RepairPlan", "RepairReport", "plan_repair", "repair_dump"]
