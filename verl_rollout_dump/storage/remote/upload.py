"""From the spool to the store: each file once, and an older file of the same step first put aside."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from verl_rollout_dump.config.schema import Existing
from verl_rollout_dump.storage.attempts import counts
from verl_rollout_dump.storage.directory_lock import DirectoryLock
from verl_rollout_dump.storage.existing_files import SUPERSEDED
from verl_rollout_dump.storage.remote.spool import Spool, SpooledFile, spool_folder
from verl_rollout_dump.storage.remote.store import Store, StoreError
from verl_rollout_dump.storage.retries import LONGEST_PAUSE
from verl_rollout_dump.storage.run_record import FILENAME, RunRecord

logger = logging.getLogger(__name__)

FIRST_PAUSE = 0.5  # seconds without a try after a failed one; doubled each time
LONGEST_OUTAGE_PAUSE = 60.0


class Uploads:
    """Brings the files of a spool into a store, in their order; knows when the store is away."""

    def __init__(self, spool: Spool, store: Store, record: RunRecord, existing: Existing) -> None:
        self._spool = spool
        self._store = store
        self._record = record
        self._existing = existing
        self._begun: set[Path] = set()  # files of which an upload was begun: what the store has may be ours
        self._pause = FIRST_PAUSE
        self._next_try = 0.0

    @property
    def is_away(self) -> bool:
        """Whether the store failed a moment ago, so that it is not asked yet."""
        return time.monotonic() < self._next_try

    def try_now(self, what: Callable[[], None]) -> bool:
        """Do something with the store; False: it is away. The first failure of an outage is logged."""
        try:
            what()
        except StoreError as error:
            if self._pause == FIRST_PAUSE:
                logger.warning("%s. Steps wait in %s until the store is back", error, self._spool.folder)
            self._next_try = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, LONGEST_OUTAGE_PAUSE)
            return False
        if self._pause != FIRST_PAUSE:
            logger.warning("%s is back", self._store.url)
        self._pause, self._next_try = FIRST_PAUSE, 0.0
        return True

    def drain(self) -> bool:
        """Upload what waits; False: the store is away, and some waits still."""
        return all(self.try_now(lambda file=file: self.upload(file)) for file in self._spool.files())  # type: ignore[misc]

    def drain_for(self, seconds: float) -> bool:
        """Upload what waits, trying for so many seconds; False: some waits still."""
        ends = time.monotonic() + seconds
        pause = 0.2
        while not self.drain():
            if time.monotonic() + pause > ends:
                return False
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        return True

    def upload(self, file: SpooledFile) -> None:
        """Bring one file into the store, and take it out of the spool. Raises `StoreError`."""
        attempts, name = self._record.attempts, file.path.name
        owner = next((attempt for attempt in attempts if attempt.attempt == file.attempt), None)
        if not counts(attempts, file.step, file.attempt):  # left behind here, while the run went on elsewhere
            self._store.upload(file.path, f"{SUPERSEDED}/{file.attempt}/{name}")
        else:
            if not self._make_way(file):
                return
            self._begun.add(file.path)
            self._store.upload(file.path, name)
        if owner is not None:
            owner.note_written(file.step)
        file.path.unlink()
        self._begun.discard(file.path)

    def _make_way(self, file: SpooledFile) -> bool:
        """Put an older file of the step aside; False: `existing: error`, and it stays."""
        name = file.path.name
        if file.path in self._begun or self._store.size(name) is None or self._is_there(file):
            return True
        if self._existing is Existing.error:
            refused = file.path.with_name(name + ".refused")
            file.path.rename(refused)
            logger.error("%s/%s exists and rollout_dump.path.existing=error: see %s", self._store.url, name, refused)
            return False
        if self._existing is Existing.supersede:
            writer = self._record.writer_of(file.step)
            self._store.copy(name, self._free_name(f"{SUPERSEDED}/{writer}/{name}"))
        return True

    def _is_there(self, file: SpooledFile) -> bool:
        """Whether the store has this very file: an upload succeeded, and its process did not live to see it."""
        return (
            self._store.size(file.path.name) == file.path.stat().st_size
            and self._store.read(file.path.name) == file.path.read_bytes()
        )

    def _free_name(self, name: str) -> str:
        number, free = 2, name
        while self._store.size(free) is not None:
            free = f"{name}.{number}"
            number += 1
        return free


def upload_spool(url: str, spool_dir: str | None = None, filename: str = "{step}.jsonl") -> list[int]:
    """Upload what a run has left in the spool of a URL, and return the steps. For when no run will follow.

    `filename` is that run's `path.filename`. Raises `DumpError` while a run of this machine writes to the URL, and
    `StoreError` while the store is away.
    """
    spool, store = Spool(spool_folder(url, spool_dir), filename), Store(url)
    lock = DirectoryLock(spool.folder)
    try:
        record = RunRecord("train", {}, store.read(FILENAME))
        record.end_the_dead()
        waiting = spool.files()
        uploads = Uploads(spool, store, record, Existing.supersede)
        for file in waiting:
            uploads.upload(file)
        if record.earlier:
            store.write(FILENAME, record.content_of_earlier(store.read(FILENAME)))
        return [file.step for file in waiting]
    finally:
        lock.release()
