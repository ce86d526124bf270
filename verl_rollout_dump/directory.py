"""The directory of a dump: every name in it, and what happens to what is there already.

    DIR/7.jsonl                  the rollouts of step 7 (7.jsonl.gz, 7.jsonl.zst where compressed)
    DIR/7.jsonl.tmp              the same, not complete yet
    DIR/run.json                 what wrote the dump (see run_record.py)
    DIR/run.lock                 held while a run writes here
    DIR/superseded/1/7.jsonl     what attempt 1 wrote for step 7, after a later attempt wrote it again;
                                 attempt 0: a file that this package did not write
    DIR/validation/              the dump of the validations, where both are to go to the same directory

Only steps end in `.jsonl`, so that verl's `scripts/rollout_viewer.py` (int(stem) of every `*.jsonl`) reads DIR.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from verl_rollout_dump.compression import STREAMS
from verl_rollout_dump.config.schema import DumpConfig, Existing
from verl_rollout_dump.config.sweeps import claim_for_job
from verl_rollout_dump.errors import DumpError
from verl_rollout_dump.run_record import RunRecord, State
from verl_rollout_dump.writer import TEMPORARY_SUFFIX, DurableSync, Sync, write_file

logger = logging.getLogger(__name__)

LOCK = "run.lock"
SUPERSEDED = "superseded"


class DumpDirectory:
    """An open directory of a dump: one attempt writes into it.

    Opening it makes the directory, takes its lock, puts leftovers of a dead attempt aside and writes `run.json`.
    Raises `DumpError` where that cannot be done, or another run holds the lock.
    """

    def __init__(self, path: Path, split: str, config: DumpConfig, node: dict[str, Any]) -> None:
        self.path = path
        self._config = config
        self._sync = DurableSync() if config.writer.fsync else Sync()
        try:
            path.mkdir(parents=True, exist_ok=True)
            claim_for_job(path)
            self._lock = take_lock(path)
            self.record = RunRecord(path, split, node)
            self._put_leftovers_aside()
            self.record.save({})
        except OSError as error:
            raise DumpError(
                f"cannot write rollouts to {path}: {error.strerror or error}. Make the directory writable for this "
                "user, or choose another with trainer.rollout_data_dir=DIR"
            ) from error
        logger.warning("rollouts (%s) are dumped to %s, attempt %d", split, path, self.record.current.attempt)

    def write_step(self, step: int, pieces: Iterable[list[bytes]]) -> int:
        """Write the file of a step and return its size in bytes. Raises OSError."""
        stream = STREAMS[self._config.writer.compression]()
        target = self.path / (self._config.path.filename.format(step=step) + stream.suffix)
        if os.path.lexists(target):
            ON_EXISTING[self._config.path.existing](self, target, step)
        size = write_file(target, pieces, stream, self._sync)
        self.record.current.steps.add(step)
        return size

    def save_record(self, report: dict[str, Any]) -> None:
        """Write `run.json`. Raises OSError."""
        self.record.save(report)

    def close(self, state: State, report: dict[str, Any]) -> None:
        """End the attempt and give the lock back. Raises OSError where `run.json` cannot be written."""
        try:
            self.record.end(state)
            self.record.save(report)
        finally:
            self._lock.release()

    def supersede(self, target: Path, attempt: int) -> Path:
        """Move a file to `superseded/<attempt>/`, under a name that is free there."""
        folder = self.path / SUPERSEDED / str(attempt)
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder / target.name
        number = 2
        while os.path.lexists(aside):
            aside = folder / f"{target.name}.{number}"
            number += 1
        os.replace(target, aside)
        logger.warning("%s was there already; it is now %s", target, aside)
        return aside

    def _put_leftovers_aside(self) -> None:
        """Move what a dead attempt had begun to write out of the way; it is no data."""
        last = max((attempt.attempt for attempt in self.record.earlier), default=0)
        for leftover in sorted(self.path.glob("*.jsonl*" + TEMPORARY_SUFFIX)):
            self.supersede(leftover, last)


def supersede_existing(directory: DumpDirectory, target: Path, step: int) -> None:
    """`existing: supersede`: the older file is kept."""
    directory.supersede(target, directory.record.writer_of(step))


def refuse_existing(directory: DumpDirectory, target: Path, step: int) -> None:
    """`existing: error`: the older file stays, and this step is not written."""
    raise FileExistsError(
        f"{target} exists and rollout_dump.path.existing=error. Choose another directory, or "
        "existing=supersede, which keeps the older file"
    )


def overwrite_existing(directory: DumpDirectory, target: Path, step: int) -> None:
    """`existing: overwrite`: the new file takes its place by itself."""


ON_EXISTING: dict[Existing, Callable[[DumpDirectory, Path, int], None]] = {
    Existing.supersede: supersede_existing,
    Existing.error: refuse_existing,
    Existing.overwrite: overwrite_existing,
}


def take_lock(path: Path) -> FileLock:
    """Take the lock of a directory, or raise `DumpError` that says who holds it.

    The system gives the lock back when its owner ends, however it ends.
    """
    lock = FileLock(path / LOCK, thread_local=False)  # taken and given back by different threads
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise DumpError(
            f"another run is writing to {path} (see {path / 'run.json'}: host, pid and start of its last attempt). "
            "Give this run a directory of its own: rollout_dump/path=per_run, or trainer.rollout_data_dir=DIR"
        ) from error
    return lock
