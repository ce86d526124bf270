"""Check whether a dump is complete and consistent, for people and CI.

    from verl_rollout_dump.analysis.check import check_dump

    findings = check_dump(open_dump("outputs/rollouts"))

Severities: an `error` means that data is lost or that strict readers fail; a `warning` marks something unusual.
`findings.KINDS` lists all kinds.
"""

from verl_rollout_dump.analysis.check.checks import check_dump
from verl_rollout_dump.analysis.check.findings import ERROR, KINDS, WARNING, Finding

__all__ = ["ERROR", "KINDS", "WARNING", "Finding", "check_dump"]
