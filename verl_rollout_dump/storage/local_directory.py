"""The directory of a dump: every name in it, and what happens to what is there already.

    DIR/7.jsonl                  the rollouts of step 7 (7.jsonl.gz, 7.jsonl.zst where compressed)
    DIR/7.jsonl.tmp              the same, not complete yet
    DIR/run.json                 what wrote the dump (see run_record.py)
    DIR/run.lock                 held while a run writes here (see directory_lock.py)
    DIR/sweep.json               which job of a sweep writes here (see sweep_claim.py)
    DIR/superseded/1/7.jsonl     what attempt 1 wrote for step 7, after a later attempt wrote it again;
                                 attempt 0: a file that this package did not write
    DIR/validation/              the dump of the validations, where both are to go to the same directory
    DIR/shards/0003-of-0016/     the dump of one of many writers (see shards.py)

Only steps end in `.jsonl`, so that verl's `scripts/rollout_viewer.py` (int(stem) of every `*.jsonl`) reads DIR.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from verl_rollout_dump.config.schema import DumpConfig
from verl_rollout_dump.errors import DumpError
from verl_rollout_dump.storage.atomic_files import TEMPORARY_SUFFIX, DurableSync, Sync, make_folder, write_file
from verl_rollout_dump.storage.attempts import NOBODY, Attempt, State, writer_of
from verl_rollout_dump.storage.compression import STREAMS, Pieces
from verl_rollout_dump.storage.directory_lock import DirectoryLock
from verl_rollout_dump.storage.existing_files import PLACEMENTS, Placing, files_kept_aside, move_aside
from verl_rollout_dump.storage.run_record import FILENAME, RunRecord, open_record
from verl_rollout_dump.storage.step_files import files_by_step, step_name

logger = logging.getLogger(__name__)


class DumpDirectory:
    """An open directory of a dump: one attempt writes into it.

    Opening it makes the directory, takes its lock, puts leftovers of a dead attempt aside and writes `run.json`.
    Raises `DumpError` where that cannot be done, or another run holds the lock.
    """

    record: RunRecord

    def __init__(self, path: Path, split: str, config: DumpConfig, node: dict[str, Any]) -> None:
        self.path = path
        self.handed_over: set[int] = set()
        self._config = config
        self._sync = DurableSync() if config.writer.fsync else Sync()
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
        logger.info("rollouts (%s) are dumped to %s, attempt %d", split, path, self.record.current.attempt)

    def write_step(self, step: int, pieces: Iterable[Pieces]) -> int:
        """Write the file of a step and return its size in bytes. Raises OSError."""
        if self._lock.is_lost:
            raise PermissionError(f"{self.path} was taken over by another run, so nothing more is written there")
        step = operator.index(step)
        stream = STREAMS[self._config.writer.compression]()
        target = self.path / (step_name(self._config.path.filename, step) + stream.suffix)
        placing = Placing(self.path, target, self.record.writer_of(step))
        placement = PLACEMENTS[self._config.path.existing]
        placement.check(placing)
        self.record.current.begin(step)
        size = write_file(target, pieces, stream, self._sync, lambda temporary, _: placement.place(placing, temporary))
        self.record.current.note_written(step)
        return size

    def save_record(self, report: dict[str, Any]) -> None:
        """Write `run.json`. Raises OSError."""
        self.record.save(self.path, report, self._sync)

    def end(self, state: State, report: Callable[[], dict[str, Any]]) -> None:
        """End the attempt. Raises OSError where `run.json` cannot be written."""
        self.record.end(state)
        self.save_record(report())

    def release(self) -> None:
        """Give the lock back."""
        self._lock.release()

    @property
    def waiting_steps(self) -> list[int]:
        """No step waits: this directory is where they go."""
        return []

    def _open(self, split: str, node: dict[str, Any]) -> None:
        self.record = open_record(self.path, split, node)
        self._put_leftovers_aside()
        self._find_writers()
        self.record.end_the_dead()
        self.save_record({})

    def _put_leftovers_aside(self) -> None:
        """Move what a dead attempt had begun to write out of the way; it is no data."""
        last = max((attempt.attempt for attempt in self.record.earlier), default=NOBODY)
        for leftover in sorted(self.path.glob("*.jsonl*" + TEMPORARY_SUFFIX)):
            move_aside(self.path, leftover, last)
        (self.path / (FILENAME + TEMPORARY_SUFFIX)).unlink(missing_ok=True)

    def _find_writers(self) -> None:
        """Find out who wrote the files that no attempt claims: a run was killed between its file and `run.json`."""
        record, died = self.record, self.record.died
        for step, files in files_by_step(self.path, self._config.path.filename).items():
            writer = writer_of(record.earlier, step)
            is_unknown = writer == NOBODY and step not in record.steps_of_others
            if died and (is_unknown or self._replaced(died, step, files, writer)):
                died.note_written(step)
            elif is_unknown:
                record.steps_of_others.add(step)
            kept = files_kept_aside(self.path, files, writer_of(record.earlier, step))
            if kept:
                record.current.kept_before[str(step)] = kept

    def _replaced(self, attempt: Attempt, step: int, files: list[Path], writer: int) -> bool:
        """Whether an attempt put aside what its writer had written for a step: there is more aside than before."""
        kept = files_kept_aside(self.path, files, writer)
        return writer < attempt.attempt and kept > attempt.kept_before.get(str(step), 0)


def cannot_write(path: object, error: OSError) -> str:
    """Say that a dump cannot start."""
    return (
        f"cannot write rollouts to {path}: {error.strerror or error}. Make the directory writable for this "
        "user, or choose another with trainer.rollout_data_dir=DIR"
    )
