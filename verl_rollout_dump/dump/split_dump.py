"""`SplitDump`: the directory and the counts of one split, training or validation."""

from __future__ import annotations

import contextlib
import logging
import sys
from dataclasses import dataclass
from typing import Any

from verl_rollout_dump.batch.rollout_batch import BatchError, step_number
from verl_rollout_dump.dump.counters import DumpCounters
from verl_rollout_dump.dump.report import DumpReport
from verl_rollout_dump.storage.attempts import State
from verl_rollout_dump.storage.open_directory import OpenDirectory
from verl_rollout_dump.storage.steps import format_steps

logger = logging.getLogger(__name__)


@dataclass
class SplitDump:
    """The dump of the rollouts of one split: where they are written, and what is counted of them."""

    directory: OpenDirectory
    counters: DumpCounters

    @property
    def report(self) -> DumpReport:
        """What was done up to now: a copy."""
        report = self.counters.report()
        report.steps_waiting_for_store = len(self.directory.waiting_steps)
        return report

    def note_failed(self, step: Any, records: int, stage: str, error: Exception) -> None:
        """Count a step that is not dumped, here and in `run.json`."""
        with contextlib.suppress(BatchError):  # `run.json` lists steps by number
            self.directory.note_failed(step_number(step))
        self.counters.note_failed(step, records, stage, error)

    def note_dropped(self, step: int, records: int) -> None:
        """Count a step that found the queue full, here and in `run.json`."""
        self.directory.note_dropped(step)
        self.counters.note_dropped(step, records)

    def report_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON, for `run.json`."""
        return self.report.as_dict()

    def save_record(self) -> None:
        """Write `run.json`; a failure is counted."""
        try:
            self.directory.save_record(self.report_dict())
        except Exception as error:
            self.counters.note_fault("write run.json", error)

    def end(self, state: State) -> None:
        """End the attempt, and log which steps are missing in it."""
        try:
            self.directory.end(state, self.report_dict)
        except Exception as error:
            self._report_lost_record(error)
        self._report_missing_steps()

    def _report_lost_record(self, error: Exception) -> None:
        attempt = self.directory.attempt
        logger.error("run.json of %s could not be written at the end: %s", self.directory.path, error)
        print(  # logging may not work any more; stderr is the last place that can say it
            f"verl_rollout_dump: run.json of {self.directory.path} could not be written ({error}). Written: steps "
            f"{format_steps(attempt.steps) or 'none'}; failed: {format_steps(attempt.failed) or 'none'}; "
            f"dropped: {format_steps(attempt.dropped) or 'none'}",
            file=sys.stderr,
            flush=True,
        )

    def _report_missing_steps(self) -> None:
        report = self.report
        missing = DumpReport.joined_steps([report.steps_failed, report.steps_dropped])
        if missing:
            logger.error(
                "rollouts of %d steps are missing in the dump: %s; %s (%s)",
                len(missing),
                missing,
                report.failures,
                self.directory.path,
            )
