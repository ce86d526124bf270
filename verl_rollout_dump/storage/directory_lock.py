"""`run.lock`: one live run writes into a directory; a second one is refused with a message that names the first.

    {"host": "node7", "pid": 4711, "started": "2026-01-02T03:04:05+00:00", "process": "86253", "token": "..."}

The lock is a `flock` on the file: it ends with its owner, even if that is killed, and on NFS (Linux 2.6.12 and later,
unless mounted with `nolock`) it holds between hosts. On a file system without `flock` (Lustre without `-o flock`),
`run.lease` is the lock, which its owner renews (see lease.py). `run.lock` stays when the lock is released: removing it
would let two runs lock two files of one name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import weakref
from pathlib import Path

from verl_rollout_dump.config.hydra_job import own_directory_remedy
from verl_rollout_dump.errors import DumpError
from verl_rollout_dump.storage.atomic_files import FILE_MODE, NOFOLLOW, Sync, replace_file
from verl_rollout_dump.storage.lease import Lease, LeaseHeld, Owner, owner_of_process, parse_owner
from verl_rollout_dump.storage.step_files import RUN_LEASE, RUN_LOCK

logger = logging.getLogger(__name__)

_TAKEN = (errno.EACCES, errno.EAGAIN)
_NO_FLOCK = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)


class DirectoryLock:
    """The lock of one directory, held from its construction on, which raises `DumpError` if another run holds it.

    Raises OSError too.
    """

    def __init__(self, folder: Path) -> None:
        self._descriptor: int | None = None
        self._lease: Lease | None = None
        self._path = folder / RUN_LOCK
        owner = owner_of_process()
        try:
            self._descriptor = _lock_file(self._path)
        except BlockingIOError as error:
            raise DumpError(refusal(folder, _read_owner(self._path))) from error
        if self._descriptor is None:
            self._lease = _take_lease(folder, owner)
        else:
            _write_owner(self._descriptor, owner)
        _held.add(self)

    @property
    def is_lost(self) -> bool:
        """Whether another run has taken it over; only a lease can be lost."""
        return self._lease is not None and self._lease.is_lost

    def is_in_place(self) -> bool:
        """Return whether the folder still has the file that is locked."""
        return self._descriptor is None or _is_same_file(self._descriptor, self._path)

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        self.leave()
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def leave(self) -> None:
        """Close this process's copy of the file; in a forked child, the parent still holds the lock."""
        _held.discard(self)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _lock_file(path: Path) -> int | None:
    """Return the descriptor of a file, locked, or None without flock. Raises BlockingIOError if it is locked."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NOFOLLOW, FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same_file(descriptor, path):  # not a file that was removed meanwhile
                return descriptor
            os.close(descriptor)
        except OSError as error:
            os.close(descriptor)
            if error.errno in _NO_FLOCK:
                return None
            if error.errno in _TAKEN:
                raise BlockingIOError(*error.args) from error
            raise


def _is_same_file(descriptor: int, path: Path) -> bool:
    """Return whether a path still names an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return False


def _write_owner(descriptor: int, owner: Owner) -> None:
    """Write the owner into the open lock file, for the message to runs that are refused. Raises OSError."""
    content = json.dumps(vars(owner)).encode() + b"\n"
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, content, 0)


def _read_owner(path: Path) -> Owner | None:
    """Return the owner in a lock file, or None if it has none or cannot be read."""
    try:
        return parse_owner(path.read_bytes())
    except OSError as error:
        logger.warning("%s cannot be read: %s", path, error)
        return None


def refusal(folder: object, owner: Owner | None) -> str:
    """Return the message that names the run that writes to a folder, and the remedy."""
    who = str(owner) if owner else "its owner has not signed it yet"
    return f"another run is writing to {folder} ({who}). Give this run a directory of its own: {own_directory_remedy()}"


class LeaseOfFolder:
    """The lease file of a folder."""

    def __init__(self, folder: Path) -> None:
        self.where = str(folder)
        self._path = folder / RUN_LEASE

    def read(self) -> bytes | None:
        """Return the content, or None without a file."""
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None

    def write(self, content: bytes) -> None:
        """Write the content atomically."""
        replace_file(self._path, content, Sync())

    def remove(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)


def _take_lease(folder: Path, owner: Owner) -> Lease:
    """Take the lease of a folder whose file system has no flock. Raises `DumpError` if another run holds it."""
    logger.warning("%s is on a file system without flock: its lock is a lease, renewed while the run lives", folder)
    try:
        return Lease(LeaseOfFolder(folder), owner)
    except LeaseHeld as held:
        raise DumpError(refusal(folder, held.owner)) from held


def _leave_locks_to_parent() -> None:
    """Close all locks in a forked child: otherwise they would outlive the parent."""
    for lock in list(_held):
        with contextlib.suppress(OSError):  # the child has closed it already
            lock.leave()


_held: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()
os.register_at_fork(after_in_child=_leave_locks_to_parent)
