"""Is a dump whole, and is it what it should be? Made for people and for CI.

    from verl_rollout_dump.analysis.check import check_dump

    findings = check_dump(open_dump("outputs/rollouts"))

Severities: an `error` means that data is lost or that strict readers fail; a `warning` that something deserves a
look. `findings.KINDS` lists all kinds.
"""

from verl_rollout_dump.analysis.check.checks import check_dump
from verl_rollout_dump.analysis.check.findings import ERROR, KINDS, WARNING, Finding

__all__ = ["ERROR", "KINDS", "WARNING", "Finding", "check_dump"]
