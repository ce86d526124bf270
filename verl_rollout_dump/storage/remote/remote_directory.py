"""`RemoteDirectory`: the directory of a dump in a remote store, with the promises of a local one.

A step is written to the spool first, whole, and is safe there; then it is uploaded. While the store is away the
training goes on and steps gather in the spool; they are uploaded, in order, when it is back, at the end of the run,
or when the next run starts. A lease in the store keeps a second live run out (see lease.py).
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any

from verl_rollout_dump.config.schema import DumpConfig, Existing
from verl_rollout_dump.errors import DumpError
from verl_rollout_dump.storage.atomic_files import DurableSync, Sync, replace_file, write_file
from verl_rollout_dump.storage.attempts import State
from verl_rollout_dump.storage.compression import STREAMS, Pieces
from verl_rollout_dump.storage.directory_lock import LEASE_FILE, DirectoryLock, refusal
from verl_rollout_dump.storage.existing_files import move_aside
from verl_rollout_dump.storage.lease import Lease, LeaseHeld, owner_of_process
from verl_rollout_dump.storage.remote.spool import Spool, spool_folder
from verl_rollout_dump.storage.remote.store import Store, StoreError
from verl_rollout_dump.storage.remote.upload import Uploads
from verl_rollout_dump.storage.run_record import FILENAME, RunRecord
from verl_rollout_dump.storage.step_files import SHARDS, format_steps, shard_name, step_name

logger = logging.getLogger(__name__)


class LeaseOfStore:
    """The object that holds a lease, in a store."""

    def __init__(self, store: Store) -> None:
        self.where = store.url
        self._store = store

    def read(self) -> bytes | None:
        """Return the content; None: no object."""
        return self._store.read(LEASE_FILE)

    def write(self, content: bytes) -> None:
        """Put the content there, whole."""
        self._store.write(LEASE_FILE, content)

    def remove(self) -> None:
        """Remove the object."""
        self._store.remove(LEASE_FILE)


class RemoteDirectory:
    """An open directory of a dump in a store: one attempt writes into it.

    Opening it takes the lease, uploads what an earlier run left in the spool, and writes `run.json`. Raises
    `DumpError` where that cannot be done, or another run holds the lease.
    """

    def __init__(self, url: str, split: str, config: DumpConfig, node: dict[str, Any]) -> None:
        self.handed_over: set[int] = set()
        self._config = config
        self._sync = DurableSync() if config.writer.fsync else Sync()
        with contextlib.ExitStack() as undo:
            try:
                self._open(shard_url(url, config), split, node, undo)
            except LeaseHeld as held:
                raise DumpError(refusal(url, held.owner)) from held
            except (StoreError, ValueError, KeyError, TypeError) as error:
                raise DumpError(
                    f"cannot write rollouts to {url}: {error}. Is the store up, and may we write?"
                ) from error
            except OSError as error:
                raise DumpError(
                    f"cannot use the spool of {url}: {error}. Choose another place for it with "
                    "rollout_dump.writer.spool_dir=DIR"
                ) from error
            undo.pop_all()
        logger.info("rollouts (%s) are dumped to %s, attempt %d", split, url, self.record.current.attempt)

    def _open(self, url: str, split: str, node: dict[str, Any], undo: contextlib.ExitStack) -> None:
        self._spool = Spool(spool_folder(url, self._config.writer.spool_dir), self._config.path.filename)
        self.path = self._spool.folder
        self._lock = DirectoryLock(self._spool.folder)
        undo.callback(self._lock.release)
        self._store = Store(url)
        self._lease = Lease(LeaseOfStore(self._store), owner_of_process())
        undo.callback(self._lease.release)
        self.record = RunRecord(split, node, self._store.read(FILENAME))
        self.record.end_the_dead()
        self._uploads = Uploads(self._spool, self._store, self.record, self._config.path.existing)
        if not self._uploads.drain():
            raise StoreError(f"{url} did not take what an earlier run left in {self._spool.folder}")
        self._store.write(FILENAME, self.record.content({}))

    @property
    def waiting_steps(self) -> list[int]:
        """Steps whose files wait here for the store."""
        return [file.step for file in self._spool.files()]

    def write_step(self, step: int, pieces: Iterable[Pieces]) -> int:
        """Write the file of a step and return its size in bytes: into the spool, and into the store if it is there.

        Raises OSError where the spool cannot be written.
        """
        if self._lease.is_lost:
            raise PermissionError(f"{self._store.url} was taken over by another run, so nothing more is written there")
        stream = STREAMS[self._config.writer.compression]()
        name = step_name(self._config.path.filename, step) + stream.suffix
        if self._config.path.existing is Existing.error and not self._uploads.is_away:
            self._refuse_existing(name)
        self.record.current.begin(step)
        target = self._spool.place(self.record.current.attempt, name)
        if target.exists():  # the same step again, before the store has taken it
            move_aside(target.parent, target, self.record.current.attempt)
        size = write_file(target, pieces, stream, self._sync)
        if not self._uploads.is_away:
            self._uploads.drain()
        return size

    def save_record(self, report: dict[str, Any]) -> None:
        """Write `run.json` into the spool, and into the store if it is there. Raises OSError for the spool's."""
        content = self.record.content(report)
        replace_file(self._spool.folder / FILENAME, content, self._sync)
        if not self._uploads.is_away:
            self._uploads.try_now(lambda: self._store.write(FILENAME, content))

    def end(self, state: State, report: Callable[[], dict[str, Any]]) -> None:
        """Upload what waits, trying for `writer.retry_seconds`, and end the attempt. Raises OSError."""
        self.record.end(state)
        is_done = self._lease.is_lost or self._uploads.drain_for(self._config.writer.retry_seconds)
        self.save_record(report())
        if not is_done:
            told = (
                f"verl_rollout_dump: {self._store.url} is away; steps {format_steps(self.waiting_steps)} are safe in "
                f"{self._spool.folder}. The next run uploads them, or "
                f"verl_rollout_dump.storage.upload_spool({self._store.url!r})"
            )
            print(told, file=sys.stderr, flush=True)

    def release(self) -> None:
        """Give lease and lock back."""
        try:
            self._lease.release()
        except OSError as error:
            logger.warning("the lease of %s cannot be given back; it runs out by itself: %s", self._store.url, error)
        self._lock.release()

    def _refuse_existing(self, name: str) -> None:
        try:
            exists = self._store.size(name) is not None
        except StoreError:  # away: what happens to the file is decided when it is uploaded
            return
        if exists:
            raise FileExistsError(
                f"{self._store.url}/{name} exists and rollout_dump.path.existing=error. Choose another directory, or "
                "existing=supersede, which keeps the older file"
            )


def shard_url(url: str, config: DumpConfig) -> str:
    """Return where a writer writes: the URL itself where it is the only one."""
    writer = config.writer
    return url if writer.shards == 1 else f"{url.rstrip('/')}/{SHARDS}/{shard_name(writer.shard, writer.shards)}"
