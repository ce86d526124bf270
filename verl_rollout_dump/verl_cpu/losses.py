"""What a dump lost of the values that reward functions returned, by its own report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from verl_rollout_dump.serialization.table import RULES

RUN_RECORD = "run.json"
# Lossy by the letter, since another type is read back, but the value is all there.
VALUE_IS_THERE = {"key_to_text", "key_collision", "reserved_key", "non_finite_string"}
RULE_OF = {rule.name: rule for rule in RULES}


def lossy_warnings(conversions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each kind of loss among the conversions of a report."""
    return [
        f"field {found['field']!r}{' at ' + found['path'] if found['path'] else ''}, record {found['first_record']}: "
        f"{found['count']} x {found['type']} would be written as {rule.output} ({rule.name}); {rule.instead}"
        for found in conversions
        if (rule := RULE_OF[found["rule"]]).lossy and rule.name not in VALUE_IS_THERE
    ]


def losses_of(dump: Path) -> list[str]:
    """Return a sentence for each loss of the last attempt that wrote a dump; none: every value is there.

    Raises OSError where there is no dump.
    """
    record = json.loads((dump / RUN_RECORD).read_bytes())
    report = record["report"]
    losses = lossy_warnings(report["conversions"])
    losses += [f"{what}, {count} times" for what, count in {**report["fields"], **report["failures"]}.items()]
    losses += [f"step {step} is missing" for step in [*report["steps_failed"], *report["steps_dropped"]]]
    if record["state"] != "complete":
        losses.append(f"the dump is {record['state']}, not complete")
    if not report["records_written"]:
        losses.append("not one rollout was written")
    return losses
