"""The accounts of a dump: everything that is counted, said once, or kept to be raised.

Under `on_error: warn` a failure is logged once per kind, with its traceback; under `raise` it is kept until the
caller asks (`raise_unraised`). Safe to use from several threads; the lock may be taken again by a signal handler.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace

from verl_rollout_dump.config.schema import OnError
from verl_rollout_dump.dump.fields import FieldNotes
from verl_rollout_dump.dump.report import DumpReport
from verl_rollout_dump.dump.sampling import KeptRows
from verl_rollout_dump.dump.snapshot import ConvertedStep, ValuesField
from verl_rollout_dump.errors import DumpError
from verl_rollout_dump.serialization import ConversionReport

logger = logging.getLogger(__name__)


class Accounts:
    """What one attempt did, up to now."""

    def __init__(self, on_error: OnError) -> None:
        self.notes = FieldNotes()
        self._on_error = on_error
        self._lock = threading.RLock()
        self._counts = DumpReport()
        self._conversions = ConversionReport()
        self._warned: set[tuple[str, ...]] = set()
        self._unraised: DumpError | None = None

    def note_kept(self, kept: KeptRows) -> None:
        """Count the rows of a batch that are not written, and a batch without rows."""
        with self._lock:
            self._counts.padding_rows += kept.padding
            self._counts.records_not_sampled += kept.not_sampled
            self._counts.empty_batches += not kept.rows

    def note_step_not_sampled(self) -> None:
        """Count a step that is not one of those wanted."""
        with self._lock:
            self._counts.steps_not_sampled += 1

    def note_written(self, rows: int, size: int, reports: list[ConversionReport]) -> None:
        """Count a step whose file is in place, and what was converted in it."""
        with self._lock:
            self._counts.steps_written += 1
            self._counts.records_written += rows
            self._counts.bytes_written += size
            for report in reports:
                self._conversions.merge(report)
        for warning in (warning for report in reports for warning in report.warnings()):
            self._warn_once(warning.key, warning.message)

    def note_dropped(self, step: int) -> None:
        """Count a step that found the queue full."""
        with self._lock:
            self._counts.steps_dropped.append(step)
        self._warn_once(("dropped",), f"step {step} is dropped: the queue of rollouts is full")

    def note_waited(self, seconds: float) -> None:
        """Count time that the training thread waited for a file, under `on_error: raise`."""
        with self._lock:
            self._counts.seconds_blocked += seconds

    def note_failed(self, step: int, stage: str, error: Exception) -> None:
        """Count a step that is not dumped, and say so or keep it to be raised."""
        with self._lock:
            self._counts.steps_failed.append(step)
        self._complain(
            f"{stage}: {type(error).__name__}",
            f"step {step} is not dumped (could not {stage} its rollouts): {type(error).__name__}: {error}",
            error,
        )

    def note_fault(self, what: str, error: Exception) -> None:
        """Count a fault that costs no step, and say so or keep it to be raised."""
        self._complain(f"{what}: {type(error).__name__}", f"could not {what}: {type(error).__name__}: {error}", error)

    def raise_unraised(self) -> None:
        """Raise the first failure since the last call, under `on_error: raise`."""
        with self._lock:
            error, self._unraised = self._unraised, None
        if error is not None:
            raise error

    def report(self, seconds_blocked: float) -> DumpReport:
        """Return the counts up to now: a copy. `seconds_blocked` is what callers waited for the queue."""
        with self._lock:
            return replace(
                self._counts,
                steps_dropped=list(self._counts.steps_dropped),
                steps_failed=list(self._counts.steps_failed),
                failures=dict(self._counts.failures),
                fields=dict(self.notes.counts),
                conversions=self._conversions.as_list(),
                seconds_blocked=round(self._counts.seconds_blocked + seconds_blocked, 3),
            )

    def _complain(self, kind: str, message: str, error: Exception) -> None:
        with self._lock:
            self._counts.failures[kind] = self._counts.failures.get(kind, 0) + 1
            first = self._counts.failures[kind] == 1
            if self._on_error is OnError["raise"] and self._unraised is None:
                self._unraised = DumpError(message)
                self._unraised.__cause__ = error
        if self._on_error is OnError.warn and first:
            logger.error("%s; training goes on (said once; counted in the report)", message, exc_info=error)

    def _warn_once(self, kind: tuple[str, ...], message: str) -> None:
        with self._lock:
            if kind in self._warned:
                return
            self._warned.add(kind)
        logger.warning("%s (said once; counted in the report)", message)


# What readers take for one type. Markers and digits that orjson cannot write (Fragment) are left out.
JSON_TYPES = {bool: "true/false", int: "number", float: "number", str: "text", list: "array", dict: "object"}


def note_drift(step: ConvertedStep, notes: FieldNotes) -> None:
    """Note each column of a step that holds several JSON types."""
    for field in step.fields:
        if isinstance(field, ValuesField):
            kinds = sorted({JSON_TYPES[found] for found in set(map(type, field.values)) & JSON_TYPES.keys()})
            if len(kinds) > 1:
                notes.note(
                    "mixed types",
                    field.name,
                    f"step {step.step}: the column {field.name!r} holds {', '.join(kinds)}; it is written as it "
                    f"is, but tools that give one type to a column refuse it. Return one type, or leave it out: "
                    f"rollout_dump.fields.exclude=[{field.name}]",
                )
