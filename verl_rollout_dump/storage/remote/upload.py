"""Upload files from the spool to the store, each once; earlier files of a step are treated by `path.existing`."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path

from verl_rollout_dump.config.schema import Existing
from verl_rollout_dump.storage.attempts import Attempt, counts
from verl_rollout_dump.storage.directory_lock import DirectoryLock
from verl_rollout_dump.storage.existing_files import POLICIES
from verl_rollout_dump.storage.remote.spool import Spool, SpooledFile, spool_folder
from verl_rollout_dump.storage.remote.store import Store, StoreError
from verl_rollout_dump.storage.retries import LONGEST_PAUSE
from verl_rollout_dump.storage.run_record import RunRecord
from verl_rollout_dump.storage.step_files import REFUSED_SUFFIX, RUN_RECORD, superseded_name

logger = logging.getLogger(__name__)

FIRST_PAUSE = 0.5  # seconds without a try after a failed one, doubled each time
LONGEST_OUTAGE_PAUSE = 15.0  # seconds


class Uploads:
    """Uploads the files of a spool, in order; knows when the store is unreachable."""

    def __init__(self, spool: Spool, store: Store, record: RunRecord, existing: Existing) -> None:
        self._spool = spool
        self._store = store
        self._record = record
        self._existing = existing
        self._begun: set[Path] = set()  # files whose upload began: the store may have them
        self._sizes: dict[Path, int] = {}  # bytes in the store of each file that was uploaded
        self._pause = FIRST_PAUSE
        self._next_try = 0.0

    @property
    def is_unreachable(self) -> bool:
        """Whether the store failed a moment ago; it is not tried again before the pause is over."""
        return time.monotonic() < self._next_try

    def try_now(self, what: Callable[[], None]) -> bool:
        """Do something with the store; return False if it fails. The first failure of an outage is logged."""
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
        """Upload the files that wait; return False if the store fails before the last one."""
        return all(self.try_now(lambda file=file: self.upload(file)) for file in self._spool.files())  # type: ignore[misc]

    def drain_for(self, seconds: float) -> bool:
        """Upload the files that wait, trying for `seconds`; return False if some still wait then."""
        ends = time.monotonic() + seconds
        pause = 0.2
        while not self.drain():
            if time.monotonic() + pause > ends:
                return False
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        return True

    def upload(self, file: SpooledFile) -> None:
        """Bring one file into the store and remove it from the spool. Raises `StoreError`."""
        attempts, name = self._record.attempts, file.path.name
        owner = next((attempt for attempt in attempts if attempt.attempt == file.attempt), None)
        if not counts(attempts, file.step, file.attempt):  # it stayed here while the run continued elsewhere
            self._store.upload(file.path, superseded_name(file.attempt, name))
        elif not (self._append(file, owner) or self._place(file)):
            return
        if owner is not None:
            owner.note_written(file.step)
        self._sizes.setdefault(file.path, file.path.stat().st_size)
        file.path.unlink()
        self._begun.discard(file.path)

    def _append(self, file: SpooledFile, owner: Attempt | None) -> bool:
        """Append a further batch of a step to the step's file in the store; return False if this is the first one."""
        if file.path not in self._sizes and (owner in (None, self._record.current) or file.step not in owner.steps):
            return False
        earlier = self._store.read(file.path.name)
        if earlier is None:
            return False
        part = file.path.read_bytes()
        # without a known size: an earlier run may have been killed after this upload
        size = self._sizes.get(file.path, len(earlier) - (len(part) if earlier.endswith(part) else 0))
        self._store.write(file.path.name, earlier[:size] + part)
        self._sizes[file.path] = size + len(part)
        return True

    def check(self, name: str, step: int) -> None:
        """Raise FileExistsError if `path.existing` refuses a step; an unreachable store refuses nothing yet."""
        place = StorePlace(self._store, Path(name), self._record.writer_of(step))
        with contextlib.suppress(StoreError):
            POLICIES[self._existing].check(place)

    def _place(self, file: SpooledFile) -> bool:
        """Give a file its name in the store; return False if `existing: error` refuses it."""
        place = StorePlace(self._store, file.path, self._record.writer_of(file.step))
        if file.path in self._begun or self._is_there(file):
            place.put()
            return True
        policy = POLICIES[self._existing]
        try:
            policy.check(place)
            self._begun.add(file.path)  # if the answer is lost, the store's file is this one
            policy.place(place)
        except FileExistsError as error:
            self._begun.discard(file.path)
            refused = file.path.with_name(file.path.name + REFUSED_SUFFIX)
            file.path.rename(refused)
            logger.error("%s. The rollouts of this step are in %s", error, refused)
            return False
        return True

    def _is_there(self, file: SpooledFile) -> bool:
        """Return whether the store has this very file: it was uploaded by a process that was killed then."""
        return (
            self._store.size(file.path.name) == file.path.stat().st_size
            and self._store.read(file.path.name) == file.path.read_bytes()
        )


class StorePlace:
    """The place of a step's file in a store. `writer` is the attempt that wrote the files that are there now."""

    def __init__(self, store: Store, file: Path, writer: int) -> None:
        self.name = file.name
        self._store = store
        self._file = file
        self._writer = writer

    def exists(self, name: str) -> bool:
        """Return whether the store has a file. Raises `StoreError`."""
        return self._store.size(name) is not None

    def path_of(self, name: str) -> str:
        """Return the URL of a file."""
        return f"{self._store.url}/{name}"

    def keep(self, name: str) -> None:
        """Copy a file to `superseded/`. Raises `StoreError`."""
        number = 1
        while self._store.size(kept := superseded_name(self._writer, name, number)) is not None:
            number += 1
        self._store.copy(name, kept)

    def move(self, name: str) -> None:
        """Move a file to `superseded/`. Raises `StoreError`."""
        self.keep(name)
        self._store.remove(name)

    def remove(self, name: str) -> None:
        """Remove a file. Raises `StoreError`."""
        self._store.remove(name)

    def put(self) -> None:
        """Upload the file. Raises `StoreError`."""
        self._store.upload(self._file, self.name)


def upload_spool(url: str, spool_dir: str | None = None, filename: str = "{step}.jsonl") -> list[int]:
    """Upload the files that a run has left in the spool of a URL, and return their steps. Used if no run follows.

    `spool_dir` is the run's `writer.spool_dir`, `filename` its `path.filename`. Raises `DumpError` while a run of this
    machine writes to the URL, and `StoreError` if the store is unreachable.
    """
    spool, store = Spool(spool_folder(url, spool_dir), filename), Store(url)
    lock = DirectoryLock(spool.folder)
    try:
        record = RunRecord("train", {}, store.read(RUN_RECORD))
        record.end_the_dead()
        waiting = spool.files()
        uploads = Uploads(spool, store, record, Existing.supersede)
        for file in waiting:
            uploads.upload(file)
        if record.earlier:
            store.write(RUN_RECORD, record.content_of_earlier(store.read(RUN_RECORD)))
        return [file.step for file in waiting]
    finally:
        lock.release()
