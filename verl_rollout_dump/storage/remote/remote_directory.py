"""`RemoteDirectory`: the directory of a dump in a remote store, with the promises of a local one.

A step is first written to the spool, whole, and then uploaded. While the store is unreachable, the training continues
and steps wait in the spool; they are uploaded in order when the store is back, at the end of the run, or when the next
run starts. A lease in the store refuses a second live run (see lease.py).
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from verl_rollout_dump.config.schema import DumpConfig
from verl_rollout_dump.errors import DumpError, OnceLogger
from verl_rollout_dump.storage.atomic_files import replace_file
from verl_rollout_dump.storage.attempts import State
from verl_rollout_dump.storage.compression import Pieces
from verl_rollout_dump.storage.directory_lock import DirectoryLock, refusal
from verl_rollout_dump.storage.existing_files import StepPlace
from verl_rollout_dump.storage.handover_log import HandoverLog, read_handover_log
from verl_rollout_dump.storage.lease import Lease, LeaseHeld, owner_of_process
from verl_rollout_dump.storage.open_directory import OpenDirectory
from verl_rollout_dump.storage.remedies import add_remedy
from verl_rollout_dump.storage.remote.spool import Spool, spool_folder
from verl_rollout_dump.storage.remote.store import Store, StoreError
from verl_rollout_dump.storage.remote.upload import StorePlace, Uploads
from verl_rollout_dump.storage.run_record import RunRecord
from verl_rollout_dump.storage.start_errors import cannot_reach, cannot_use_spool
from verl_rollout_dump.storage.step_files import RUN_LEASE, RUN_RECORD, other_names, shard_url, step_name
from verl_rollout_dump.storage.step_writer import StepWriter
from verl_rollout_dump.storage.steps import format_steps

logger = logging.getLogger(__name__)

TICK_SECONDS = 2.0  # between looks for files that wait, also if no further step comes


class _LeaseOfStore:
    """The lease file of a store."""

    def __init__(self, store: Store) -> None:
        self.where = store.url
        self._store = store

    def read(self) -> bytes | None:
        """Return the content, or None without a file."""
        return self._store.read(RUN_LEASE)

    def write(self, content: bytes) -> None:
        """Write the content atomically."""
        self._store.write(RUN_LEASE, content)

    def remove(self) -> None:
        """Remove the file."""
        self._store.remove(RUN_LEASE)


class RemoteDirectory(OpenDirectory):
    """An open directory of a dump in a store.

    Opening it takes the lease, uploads the files that an earlier run left in the spool, and writes `run.json`. Raises
    `DumpError` if that fails or another run holds the lease.
    """

    def __init__(self, url: str, split: str, config: DumpConfig, node: dict[str, Any]) -> None:
        self._config = config
        self._writer = StepWriter(config.writer)
        self._working = threading.RLock()  # the writing thread and the tick take turns
        self._report: dict[str, Any] = {}
        self._once = OnceLogger(logger)
        with contextlib.ExitStack() as undo:
            try:
                self._open(shard_url(url, config.writer), split, node, undo)
            except LeaseHeld as held:
                raise DumpError(refusal(url, held.owner)) from held
            except (StoreError, ValueError, KeyError, TypeError) as error:
                raise DumpError(cannot_reach(url, error)) from error
            except OSError as error:
                raise DumpError(cannot_use_spool(url, error)) from error
            undo.pop_all()
        self._ended = threading.Event()
        self._ticking = threading.Thread(target=self._tick, name="verl-rollout-dump-upload", daemon=True)
        self._ticking.start()
        logger.info("rollouts (%s) are dumped to %s, attempt %d", split, url, self.attempt.attempt)

    def _open(self, url: str, split: str, node: dict[str, Any], undo: contextlib.ExitStack) -> None:
        self._spool = Spool(spool_folder(url, self._config.writer.spool_dir), self._config.path.filename)
        self.path = self._spool.folder
        self._lock = DirectoryLock(self._spool.folder)
        undo.callback(self._lock.release)
        self._store = Store(url)
        self._lease = Lease(_LeaseOfStore(self._store), owner_of_process())
        undo.callback(self._lease.release)
        self._record = RunRecord(split, node, self._store.read(RUN_RECORD))
        self._record.end_the_dead(read_handover_log(self.path))
        self._handover_log = HandoverLog(self.path)
        self._uploads = Uploads(self._spool, self._store, self._record, self._config.path.existing)
        if not self._uploads.drain():
            raise StoreError(f"{url} did not take what an earlier run left in {self._spool.folder}")
        self._store.write(RUN_RECORD, self._record.content({}))

    @property
    def waiting_steps(self) -> list[int]:
        """Steps whose files wait on this machine for the store."""
        return [file.step for file in self._spool.files()]

    def write_step(self, step: int, pieces: Iterable[Pieces]) -> int:
        """Write the file of a step to the spool, upload it if the store is reachable, and return its size in bytes.

        Raises OSError if the spool cannot be written.
        """
        if self._lease.is_lost:
            raise PermissionError(f"{self._store.url} was taken over by another run, so nothing more is written there")
        name = step_name(self._config.path.filename, step) + self._writer.suffix
        if not self._uploads.is_unreachable and step not in self.attempt.steps:
            self._uploads.check(name, step)
        with self._working:
            self.attempt.begin(step)
            target = self._spool.place(self.attempt.attempt, name)
            size = self._writer.write(target, pieces)
            if not self._uploads.is_unreachable:
                self._uploads.drain()
            return size

    def save_record(self, report: dict[str, Any]) -> None:
        """Write `run.json` to the spool, and upload it if the store is reachable. Raises OSError for the spool."""
        with self._working:
            self._report = report
            content = self._record.content(report)
            replace_file(self._spool.folder / RUN_RECORD, content, self._writer.sync)
            if not self._uploads.is_unreachable:
                self._uploads.try_now(lambda: self._store.write(RUN_RECORD, content))

    def end(self, state: State, report: Callable[[], dict[str, Any]]) -> None:
        """Upload the files that wait, trying for `writer.retry_seconds`, and end the attempt. Raises OSError."""
        self._ended.set()
        self._ticking.join()
        self._record.end(state)
        with self._working:
            is_done = self._lease.is_lost or self._uploads.drain_for(self._config.writer.retry_seconds)
            if is_done and not self._lease.is_lost:
                self._end_leftovers(self._config.path.leftovers)
        self.save_record(report())
        self._handover_log.end()
        if not is_done:
            waiting = format_steps(self.waiting_steps)
            message = (
                f"verl_rollout_dump: {self._store.url} is unreachable; steps {waiting} are in {self._spool.folder}."
                f" The next run uploads them, or verl_rollout_dump.storage.upload_spool({self._store.url!r})"
            )
            print(message, file=sys.stderr, flush=True)

    def _tick(self) -> None:
        """Upload the files that wait as soon as the store is back, also if no further step comes."""
        while not self._ended.wait(TICK_SECONDS):
            try:
                with self._working:
                    if self.waiting_steps and not self._uploads.is_unreachable and not self._lease.is_lost:
                        self._uploads.drain()
                        self.save_record({**self._report, "steps_waiting_for_store": len(self.waiting_steps)})
            except OSError as error:
                add_remedy(error)
                self._once.warning("tick", f"the spool {self.path} cannot be used: {error}")

    def _places(self, step: int, writer: int) -> list[StepPlace]:
        name = step_name(self._config.path.filename, step)
        return [StorePlace(self._store, Path(each), writer) for each in (name, *other_names(name))]

    def release(self) -> None:
        """Release the lease and the lock."""
        try:
            self._lease.release()
        except OSError as error:
            logger.warning("the lease of %s cannot be released; it expires by itself: %s", self._store.url, error)
        self._lock.release()
