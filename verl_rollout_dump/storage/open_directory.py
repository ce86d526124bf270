"""`OpenDirectory`: what the writing side sees of a directory into which one attempt writes, local or remote."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from verl_rollout_dump.config.schema import Leftovers
from verl_rollout_dump.storage.attempts import Attempt, State
from verl_rollout_dump.storage.compression import Pieces
from verl_rollout_dump.storage.existing_files import StepPlace, supersede_leftovers
from verl_rollout_dump.storage.handover_log import HandoverLog
from verl_rollout_dump.storage.run_record import RunRecord

logger = logging.getLogger(__name__)


class OpenDirectory(ABC):
    """A directory with its `run.json`, which says what became of each step that was handed over."""

    # The folder of this machine that holds the files: of the dump itself, or of the spool.
    path: Path
    _record: RunRecord
    _handover_log: HandoverLog

    @property
    def attempt(self) -> Attempt:
        """The attempt that writes now."""
        return self._record.current

    @property
    def unfinished_steps(self) -> list[int]:
        """Steps that were handed over and are neither written, failed nor dropped yet, in ascending order."""
        return sorted(self.attempt.pending)

    @property
    @abstractmethod
    def waiting_steps(self) -> list[int]:
        """Steps whose files wait on this machine for a remote store."""

    def note_uid_form(self, form: str | None) -> None:
        """Note how uids identify single rollouts (`run_record.ROLLOUT_UIDS`); None: they identify prompts."""
        if form is not None:
            self._record.uid_form = form

    def _end_leftovers(self, choice: Leftovers) -> None:
        """Do what `path.leftovers` says; a failure is logged, since the attempt itself ends all the same."""
        if choice is not Leftovers.supersede:
            return
        try:
            supersede_leftovers(self._record.attempts, self._places)
        except OSError as error:
            logger.error("files of steps that this attempt did not reach stay in place: %s", error)

    @abstractmethod
    def _places(self, step: int, writer: int) -> list[StepPlace]:
        """Return the places of a step's file, one for each compression; `writer` is the attempt that wrote it."""

    def note_handed_over(self, step: int) -> None:
        """Note a step that is about to be written, maybe on another thread; `run.pending` has it at once."""
        self.attempt.pending.add(step)
        self._handover_log.add(step)

    def note_finished(self, step: int) -> None:
        """Note that nothing more is done for a step that was handed over."""
        self.attempt.pending.discard(step)

    def note_failed(self, step: int) -> None:
        """Note a step that could not be written."""
        self.attempt.pending.discard(step)
        self.attempt.failed.add(step)

    def note_dropped(self, step: int) -> None:
        """Note a step that was not written because the queue was full."""
        self.attempt.pending.discard(step)
        self.attempt.dropped.add(step)

    @abstractmethod
    def write_step(self, step: int, pieces: Iterable[Pieces]) -> int:
        """Write a batch of a step and return its size in bytes. Raises OSError.

        A further batch of a step that this attempt wrote is appended to the step's file.
        """

    @abstractmethod
    def save_record(self, report: dict[str, Any]) -> None:
        """Write `run.json`. Raises OSError."""

    @abstractmethod
    def end(self, state: State, report: Callable[[], dict[str, Any]]) -> None:
        """End the attempt and write `run.json`. Raises OSError."""

    @abstractmethod
    def release(self) -> None:
        """Release the lock."""
