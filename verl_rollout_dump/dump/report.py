"""What a dump did, in plain counts: written, converted, dropped, failed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class DumpReport:
    """The counts of one attempt, over all its steps. A copy: it does not change when read."""

    # Steps whose file is in place, and what is in these files.
    steps_written: int = 0
    records_written: int = 0
    bytes_written: int = 0
    # Rollouts that are in no file, by reason.
    padding_rows: int = 0
    records_not_sampled: int = 0
    # Batches that made no file, by reason.
    empty_batches: int = 0
    steps_not_sampled: int = 0
    steps_dropped: list[int] = field(default_factory=list)
    steps_failed: list[int] = field(default_factory=list)
    # Fields that did not go through as they were given: what happened -> how many times.
    fields: dict[str, int] = field(default_factory=dict)
    # Kinds of failure -> how many times; the first message of each kind is in the log.
    failures: dict[str, int] = field(default_factory=dict)
    # Every kind of conversion: field, path, from-type, rule, count, first record.
    conversions: list[dict[str, Any]] = field(default_factory=list)
    # Steps that are safe on this machine and wait for a remote store.
    steps_waiting_for_store: int = 0
    # Seconds that the training thread waited: for room in the queue, and for the file under `on_error: raise`.
    seconds_blocked: float = 0.0

    @property
    def written(self) -> int:
        """Records that are in files."""
        return self.records_written

    @property
    def converted(self) -> int:
        """Values that were not JSON as they were given."""
        return sum(entry["count"] for entry in self.conversions)

    @property
    def dropped(self) -> int:
        """Batches that found the queue full and were dropped."""
        return len(self.steps_dropped)

    @property
    def failed(self) -> int:
        """Batches that could not be written."""
        return len(self.steps_failed)

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as plain JSON, for `run.json`."""
        return dict(vars(self))  # not asdict: a report is a copy already, and is written after every step
