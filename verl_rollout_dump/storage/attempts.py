"""Attempts: the starts of a run that write into one dump, and which of them counts for a step.

A resumed training begins at the step after its checkpoint and repeats later steps. So an attempt whose first step is
101 supersedes everything that earlier attempts wrote from step 101 on: step 101 when it writes that step again, and
steps 104 and 105, which a killed attempt had already written, at once. The first step of an attempt is known when it
writes that step: an attempt that wrote no step supersedes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from verl_rollout_dump.storage.steps import format_steps, parse_steps

State = Literal["running", "complete", "failed"]
_STEP_SETS = ("steps", "failed", "dropped", "pending")
NOBODY = 0  # the number of the attempt that stands for files of other programs


@dataclass
class Attempt:
    """One start of a run that writes into a dump."""

    attempt: int
    state: State = "running"
    started: str = ""
    ended: str | None = None
    host: str = ""
    pid: int = 0
    # The first step that it wrote or tried to write; None before that.
    first_step: int | None = None
    # The steps that it wrote, those that it could not write, and those that were dropped at a full queue.
    steps: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    dropped: set[int] = field(default_factory=set)
    # The steps that were handed over and are none of these yet; of an ended attempt: the steps that were lost.
    pending: set[int] = field(default_factory=set)
    # Step -> number of files of the step's writer that were in `superseded/` when the attempt started.
    kept_before: dict[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> Attempt:
        """Read an attempt; unknown keys are ignored. Raises KeyError, TypeError and ValueError."""
        known = {f.name for f in fields(cls)}
        given = {name: value for name, value in entry.items() if name in known}
        attempt = cls(**{**given, **{name: parse_steps(entry.get(name, "")) for name in _STEP_SETS}})
        if "first_step" not in entry:
            attempt.first_step = min(attempt.steps, default=None)
        return attempt

    def as_json(self, superseded: Iterable[int]) -> dict[str, Any]:
        """Return the attempt as in `run.json`; `superseded` are its steps outside the lineage."""
        sets = {name: format_steps(getattr(self, name)) for name in _STEP_SETS}
        return {**vars(self), **sets, "superseded": format_steps(superseded)}

    @property
    def begins(self) -> float:
        """The step from which on it supersedes earlier attempts; infinity if it wrote no step."""
        return self.first_step if self.steps and self.first_step is not None else float("inf")

    def begin(self, step: int) -> None:
        """Note a step that is about to be written."""
        self.first_step = step if self.first_step is None else min(self.first_step, step)

    def note_written(self, step: int) -> None:
        """Note that the file of a step is in place; an earlier failure of the step no longer counts."""
        self.begin(step)
        self.steps.add(step)
        self.failed.discard(step)
        self.dropped.discard(step)
        self.pending.discard(step)


def writer_of(attempts: Sequence[Attempt], step: int) -> int:
    """Return the number of the last attempt that wrote a step, or `NOBODY`."""
    return max((attempt.attempt for attempt in attempts if step in attempt.steps), default=NOBODY)


def counts(attempts: Sequence[Attempt], step: int, writer: int) -> bool:
    """Return whether an attempt's file of a step counts: no later attempt began at the step or an earlier one."""
    return not any(later.attempt > writer and later.begins <= step for later in attempts)


def superseded_steps(attempts: Sequence[Attempt]) -> dict[int, set[int]]:
    """Return attempt -> its steps outside the lineage: the steps for which `counts` is false."""
    superseded: dict[int, set[int]] = {}
    begins = float("inf")  # the lowest step at which a later attempt began
    for attempt in sorted(attempts, key=lambda attempt: -attempt.attempt):
        superseded[attempt.attempt] = {step for step in attempt.steps if step >= begins}
        begins = min(begins, attempt.begins)
    return superseded
