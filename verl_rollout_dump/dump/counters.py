"""Everything that a dump counts, logs once, or keeps to be raised.

Under `on_error: warn` a failure is logged once per kind, with its traceback; under `raise` it is kept until the
caller asks for it (`raise_unraised`). Safe to use from several threads; a signal handler may take the lock again.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import Any

from verl_rollout_dump.batch.rollout_batch import BatchError, step_number
from verl_rollout_dump.config.schema import OnError
from verl_rollout_dump.dump.fields import FieldNotes
from verl_rollout_dump.dump.report import MIXED, DumpReport
from verl_rollout_dump.dump.snapshot import ConvertedStep, StepSnapshot
from verl_rollout_dump.dump.snapshot_fields import ValuesField
from verl_rollout_dump.errors import DumpError, OnceLogger
from verl_rollout_dump.serialization import ConversionReport

logger = logging.getLogger(__name__)

# JSON types by Python type. Markers and digits that orjson cannot write (Fragment) are left out.
_JSON_TYPES = {bool: "true/false", int: "number", float: "number", str: "text", list: "array", dict: "object"}


class _Failures:
    """The failures of a dump: logged once per kind, or kept to be raised, as `on_error` says."""

    def __init__(self, on_error: OnError) -> None:
        self.log = OnceLogger(logger)
        self._raises = on_error is OnError["raise"]
        self._lock = threading.RLock()
        self._unraised: DumpError | None = None

    def note(self, kind: str, message: str, error: Exception) -> None:
        """Count a failure, and log it or keep it to be raised."""
        if not self._raises:
            self.log.error(kind, f"{message}; training goes on", error)
            return
        self.log.count(kind)
        with self._lock:
            if self._unraised is None:
                self._unraised = DumpError(message)
                self._unraised.__cause__ = error

    def raise_unraised(self) -> None:
        """Raise the first failure since the last call, under `on_error: raise`."""
        with self._lock:
            error, self._unraised = self._unraised, None
        if error is not None:
            raise error


class DumpCounters:
    """What one attempt did up to now, for one split."""

    def __init__(self, on_error: OnError) -> None:
        self.notes = FieldNotes()
        self.failures = _Failures(on_error)
        self._warnings = OnceLogger(logger)
        self._lock = threading.RLock()
        self._counts = DumpReport()
        self._conversions = ConversionReport()
        self._types: dict[str, set[str]] = {}
        self._written_steps: set[int] = set()  # a step may come in several batches

    def note_rows(self, padding: int, not_sampled: int, written: int) -> None:
        """Count the rollouts of a batch that are not written, and a batch without any."""
        with self._lock:
            self._counts.padding_rows += padding
            self._counts.records_not_sampled += not_sampled
            self._counts.empty_batches += not written

    def note_step_not_sampled(self) -> None:
        """Count a step that `sampling.every_n_steps` leaves out."""
        with self._lock:
            self._counts.steps_not_sampled += 1

    def note_written(self, snapshot: StepSnapshot, step: ConvertedStep, size: int) -> None:
        """Count a step whose file is in place, and what was converted in it."""
        reports = [snapshot.report, step.report]
        with self._lock:
            self._written_steps.add(step.step)
            self._counts.steps_written = len(self._written_steps)
            self._counts.records_written += step.rows
            self._counts.bytes_written += size
            for report in reports:
                self._conversions.merge(report, snapshot.first_record)
        for warning in (warning for report in reports for warning in report.warnings()):
            self._warnings.warning(warning.key, warning.message)
        _note_unreadable(step, self.notes)
        self._note_types(step)

    def _note_types(self, step: ConvertedStep) -> None:
        """Remember the JSON types of each column, and note once a column that holds several."""
        for field in step.fields:
            if not isinstance(field, ValuesField):
                continue
            found = {_JSON_TYPES[kind] for kind in set(map(type, field.values)) & _JSON_TYPES.keys()}
            with self._lock:
                known = self._types.setdefault(field.name, set())
                is_new = len(known) < 2 and len(known | found) > 1
                known |= found
            if is_new:
                self.notes.note(
                    MIXED,
                    field.name,
                    f"step {step.step}: the column {field.name!r} holds {', '.join(sorted(known))}; it is written as "
                    f"it is, but tools that give one type to a column refuse it. Return one type, or leave it out: "
                    f"rollout_dump.fields.exclude=[{field.name}]",
                )

    def note_dropped(self, step: int, records: int) -> None:
        """Count a step that found the queue full."""
        with self._lock:
            self._counts.steps_dropped.append(step)
            self._counts.records_dropped += records
        self._warnings.warning(
            "dropped",
            f"step {step} is dropped: the queue of rollouts is full and rollout_dump.writer.when_full=drop. "
            "Raise writer.max_pending, or choose when_full=block",
        )

    def note_waited(self, seconds: float) -> None:
        """Count time that the training thread waited."""
        with self._lock:
            self._counts.seconds_blocked += seconds

    def note_failed(self, step: Any, records: int, stage: str, error: Exception) -> None:
        """Count a step that is not dumped, and log it or keep it to be raised."""
        with self._lock:
            self._counts.steps_failed.append(_step_label(step))
            self._counts.records_failed += records
        self.failures.note(
            f"{stage}: {type(error).__name__}",
            f"step {step} is not dumped (could not {stage} its rollouts): {type(error).__name__}: {error}",
            error,
        )

    def note_fault(self, what: str, error: Exception) -> None:
        """Count a fault that costs no step, and log it or keep it to be raised."""
        kind = type(error).__name__
        self.failures.note(f"{what}: {kind}", f"could not {what}: {kind}: {error}", error)

    def report(self) -> DumpReport:
        """Return the counts up to now: a copy."""
        with self._lock:
            return replace(
                self._counts,
                steps_dropped=list(self._counts.steps_dropped),
                steps_failed=list(self._counts.steps_failed),
                failures={str(kind): count for kind, count in self.failures.log.counts.items()},
                fields={str(kind): count for kind, count in self.notes.counts.items()},
                conversions=self._conversions.as_list(),
                column_types={name: sorted(types) for name, types in self._types.items()},
                seconds_blocked=round(self._counts.seconds_blocked, 3),
            )


def _step_label(step: Any) -> int | str:
    """Return a step for the report: its number, or the text of an invalid step."""
    try:
        return step_number(step)
    except BatchError:
        return repr(step)[:100]


def _note_unreadable(step: ConvertedStep, notes: FieldNotes) -> None:
    """Note each column of a step that could not be read."""
    for name, error in step.unreadable.items():
        notes.note(
            "unreadable",
            name,
            f"step {step.step}: the column {name!r} cannot be read ({type(error).__name__}: {error}), so it is null on "
            "every record. Hand over one value per rollout, and masks of the shape of what they mask",
        )
