"""`LocalDirectory`: a directory of this machine's file system into which one attempt writes. Names: step_files.py."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from verl_rollout_dump.config.schema import DumpConfig
from verl_rollout_dump.errors import DumpError
from verl_rollout_dump.storage.atomic_files import make_folder
from verl_rollout_dump.storage.attempts import NOBODY, Attempt, State, writer_of
from verl_rollout_dump.storage.compression import Pieces
from verl_rollout_dump.storage.directory_lock import DirectoryLock
from verl_rollout_dump.storage.existing_files import (
    POLICIES,
    LocalPlace,
    StepPlace,
    move_to_superseded,
    superseded_count,
)
from verl_rollout_dump.storage.handover_log import HandoverLog, read_handover_log
from verl_rollout_dump.storage.open_directory import OpenDirectory
from verl_rollout_dump.storage.remedies import add_remedy
from verl_rollout_dump.storage.run_record import open_record
from verl_rollout_dump.storage.start_errors import cannot_write
from verl_rollout_dump.storage.step_files import (
    RUN_RECORD,
    files_by_step,
    other_names,
    step_name,
    temporary_path,
    unfinished_files,
)
from verl_rollout_dump.storage.step_writer import StepWriter
from verl_rollout_dump.storage.steps import format_steps

logger = logging.getLogger(__name__)


class LocalDirectory(OpenDirectory):
    """An open directory of a dump.

    Opening it creates the directory, takes its lock, moves leftovers of a dead attempt to `superseded/` and writes
    `run.json`. Raises `DumpError` if that fails or another run holds the lock.
    """

    def __init__(self, path: Path, split: str, config: DumpConfig, node: dict[str, Any]) -> None:
        self.path = path
        self._config = config
        self._writer = StepWriter(config.writer)
        try:
            make_folder(path)
            self._lock = DirectoryLock(path)
        except OSError as error:
            raise DumpError(cannot_write(path, error)) from error
        try:
            self._open(split, node)
        except BaseException as error:
            self._lock.release()
            if isinstance(error, OSError):
                raise DumpError(cannot_write(path, error)) from error
            raise
        logger.info("rollouts (%s) are dumped to %s, attempt %d", split, path, self.attempt.attempt)

    def write_step(self, step: int, pieces: Iterable[Pieces]) -> int:
        """Write a batch of a step and return its size in bytes. Raises OSError, with a remedy in its text.

        A directory that was removed is made again first. Raises `DumpError` if another run writes there meanwhile.
        """
        try:
            self._make_again()
            return self._write_step(step, pieces)
        except OSError as error:
            add_remedy(error)
            raise

    def _write_step(self, step: int, pieces: Iterable[Pieces]) -> int:
        if self._lock.is_lost:
            raise PermissionError(f"{self.path} was taken over by another run, so nothing more is written there")
        step = operator.index(step)
        target = self.path / (step_name(self._config.path.filename, step) + self._writer.suffix)
        place = LocalPlace(target, self._record.writer_of(step))
        policy = POLICIES[self._config.path.existing]
        if not self._writer.has_written(target):
            policy.check(place)
        self.attempt.begin(step)
        size = self._writer.write(target, pieces, lambda temporary, path: policy.place(place))
        self.attempt.note_written(step)
        return size

    def save_record(self, report: dict[str, Any]) -> None:
        """Write `run.json`. Raises OSError."""
        self._make_again()
        self._record.save(self.path, report, self._writer.sync)

    def end(self, state: State, report: Callable[[], dict[str, Any]]) -> None:
        """End the attempt and write `run.json`. Raises OSError."""
        self._record.end(state)
        self._end_leftovers(self._config.path.leftovers)
        self.save_record(report())
        self._handover_log.end()

    def release(self) -> None:
        """Release the lock."""
        self._lock.release()

    @property
    def waiting_steps(self) -> list[int]:
        """No steps: they are written straight to this directory."""
        return []

    def _places(self, step: int, writer: int) -> list[StepPlace]:
        name = step_name(self._config.path.filename, step)
        return [LocalPlace(self.path / each, writer) for each in (name, *other_names(name))]

    def _make_again(self) -> None:
        """Make the directory again if it was removed, and name the steps that went with it."""
        if self._lock.is_in_place():
            return
        make_folder(self.path)
        self._lock.release()
        self._lock = DirectoryLock(self.path)
        self._handover_log.reopen(self.attempt.pending)
        there = files_by_step(self.path, self._config.path.filename)
        lost = {step for attempt in self._record.attempts for step in attempt.steps} - there.keys()
        consequence = f"steps {format_steps(lost)} are lost: restore them from a backup" if lost else "no step is lost"
        logger.error(
            "%s was removed while this run writes there. It is made again; %s. Find out what removes the directory: a "
            "clean-up job, or another run",
            self.path,
            consequence,
        )

    def _open(self, split: str, node: dict[str, Any]) -> None:
        self._record = open_record(self.path, split, node)
        self._move_leftovers()
        self._find_writers()
        self._record.end_the_dead(read_handover_log(self.path))
        self._handover_log = HandoverLog(self.path)
        self.save_record({})

    def _move_leftovers(self) -> None:
        """Move files that a dead attempt had begun to write to `superseded/`; they are not data."""
        last = max((attempt.attempt for attempt in self._record.earlier), default=NOBODY)
        for leftover in unfinished_files(self.path):
            move_to_superseded(leftover, last)
        temporary_path(self.path / RUN_RECORD).unlink(missing_ok=True)

    def _find_writers(self) -> None:
        """Find out who wrote files that no attempt claims: a run was killed between the file and `run.json`."""
        record, died = self._record, self._record.died
        for step, files in files_by_step(self.path, self._config.path.filename).items():
            writer = writer_of(record.earlier, step)
            is_unknown = writer == NOBODY and step not in record.steps_of_others
            if died and (is_unknown or self._replaced(died, step, files, writer)):
                died.note_written(step)
            elif is_unknown:
                record.steps_of_others.add(step)
            kept = superseded_count(self.path, files, writer_of(record.earlier, step))
            if kept:
                record.current.kept_before[str(step)] = kept

    def _replaced(self, attempt: Attempt, step: int, files: list[Path], writer: int) -> bool:
        """Return whether an attempt superseded the file of a step: more files of its writer are kept than before."""
        kept = superseded_count(self.path, files, writer)
        return writer < attempt.attempt and kept > attempt.kept_before.get(str(step), 0)
