"""Attempts: the starts of a run that write into one dump, and which of them counts for a step.

A training that is resumed begins at the step behind its checkpoint and does later steps over again. So an attempt
whose first step is 101 takes the place of all that earlier attempts wrote from step 101 on: of step 101 when it
writes that anew, and of steps 104 and 105, which a killed attempt had reached beyond, at once. Where an attempt
begins is known when it writes its first step, not before: an attempt without a step takes no place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from verl_rollout_dump.storage.step_files import format_steps, parse_steps

State = Literal["running", "complete", "failed"]
STEP_SETS = ("steps", "failed", "dropped")
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
    # The first step that it wrote, or tried to; None: none yet.
    first_step: int | None = None
    # The steps whose file it put in place, those that it could not write, and those that found the queue full.
    steps: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    dropped: set[int] = field(default_factory=set)
    # Steps of which older files of their writer were in `superseded/` already when it started, and how many.
    kept_before: dict[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> Attempt:
        """Read an attempt; keys of other versions are passed over. Raises KeyError, TypeError and ValueError."""
        known = {f.name for f in fields(cls)}
        given = {name: value for name, value in entry.items() if name in known}
        attempt = cls(**{**given, **{name: parse_steps(entry.get(name, "")) for name in STEP_SETS}})
        if "first_step" not in entry:
            attempt.first_step = min(attempt.steps, default=None)
        return attempt

    def as_json(self, superseded: Iterable[int]) -> dict[str, Any]:
        """Return the attempt as it stands in `run.json`, with its steps that are no part of the lineage."""
        sets = {name: format_steps(getattr(self, name)) for name in STEP_SETS}
        return {**vars(self), **sets, "superseded": format_steps(superseded)}

    @property
    def begins(self) -> float:
        """The step from which on it takes the place of earlier attempts; infinity: no step of it is in place."""
        return self.first_step if self.steps and self.first_step is not None else float("inf")

    def begin(self, step: int) -> None:
        """Note a step that is about to be written."""
        self.first_step = step if self.first_step is None else min(self.first_step, step)

    def note_written(self, step: int) -> None:
        """The file of a step is in place, whatever became of an earlier try."""
        self.begin(step)
        self.steps.add(step)
        self.failed.discard(step)
        self.dropped.discard(step)


def writer_of(attempts: Sequence[Attempt], step: int) -> int:
    """Return the number of the last attempt that wrote a step; `NOBODY`: none that is on record."""
    return max((attempt.attempt for attempt in attempts if step in attempt.steps), default=NOBODY)


def counts(attempts: Sequence[Attempt], step: int, writer: int) -> bool:
    """Whether what an attempt wrote for a step belongs to the lineage: no later attempt began at it or before."""
    return not any(later.attempt > writer and later.begins <= step for later in attempts)


def superseded_steps(attempts: Sequence[Attempt]) -> dict[int, set[int]]:
    """Return for each attempt those of its steps that are no part of the lineage: `counts`, for all at once."""
    superseded: dict[int, set[int]] = {}
    begins = float("inf")  # the lowest step at which a later attempt began
    for attempt in sorted(attempts, key=lambda attempt: -attempt.attempt):
        superseded[attempt.attempt] = {step for step in attempt.steps if step >= begins}
        begins = min(begins, attempt.begins)
    return superseded
