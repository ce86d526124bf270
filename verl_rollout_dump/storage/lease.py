"""A lease: a lock for places without locks (a file system without flock, an object store) that its owner renews.

The owner writes its name and a number, and a new number every `RENEWED` seconds. A run that finds a lease watches it
for `EXPIRES` seconds of its own clock, since the clocks of two hosts may differ: if the number changes, the owner
lives; if not, the run takes the lease over. An owner on the same host is looked up among the processes instead.

A lease is weaker than a lock: a run that was stopped for longer than `EXPIRES` may lose its lease. It then logs that
(`is_lost`) and writes nothing more.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from verl_rollout_dump.storage.timestamps import now

logger = logging.getLogger(__name__)

_START_TIME = 19  # index among the fields after the name in /proc/PID/stat (field 22 in proc(5))


@dataclass(frozen=True)
class Owner:
    """A process that holds a lock."""

    host: str
    pid: int
    # ISO 8601, UTC: when it took the lock.
    started: str
    # When the process itself began, in ticks since boot; empty if the system does not say.
    process: str
    # Unique to this lock.
    token: str

    def __str__(self) -> str:
        return f"host {self.host}, pid {self.pid}, since {self.started}"

    def is_dead(self) -> bool:
        """Return whether the process is known to have ended. A process of another host is never known to have ended."""
        return self.host == socket.gethostname() and _process_start(self.pid) != self.process


def owner_of_process() -> Owner:
    """Return this process as the owner of a new lock."""
    return Owner(socket.gethostname(), os.getpid(), now(), _process_start(os.getpid()) or "", uuid4().hex)


def parse_owner(content: bytes) -> Owner | None:
    """Return the owner in a lock's content, or None if it holds no owner (a run that just began has not written it)."""
    try:
        entry = json.loads(content)
        return Owner(**{name: entry[name] for name in Owner.__dataclass_fields__})
    except (ValueError, KeyError, TypeError):
        return None


def _process_start(pid: int) -> str | None:
    """Return when a process of this host began: None without such a process, "" if the system does not say."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # it lives and belongs to another user
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_START_TIME]
    except (OSError, IndexError):
        return ""


RENEWED = 15.0  # seconds
EXPIRES = 60.0
SETTLES = 0.5  # how long a run waits to see whether another one took the lease at the same moment


class _LeasePlace(Protocol):
    """Where a lease is stored. The methods raise OSError."""

    where: str

    def read(self) -> bytes | None:
        """Return the content, or None without one."""

    def write(self, content: bytes) -> None:
        """Write the content atomically."""

    def remove(self) -> None:
        """Remove the content."""


class LeaseHeld(Exception):
    """A live run holds the lease."""

    def __init__(self, owner: Owner | None) -> None:
        super().__init__(str(owner))
        self.owner = owner


class Lease:
    """A lease, held from its construction on, which raises `LeaseHeld` and OSError."""

    def __init__(self, place: _LeasePlace, owner: Owner) -> None:
        self.is_lost = False
        self._place = place
        self._owner = owner
        self._beat = 0
        self._ended = threading.Event()
        self._take()
        self._thread = threading.Thread(target=self._renew, name="verl-rollout-dump-lease", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Release the lease; a second call does nothing. Raises OSError."""
        if not self._ended.is_set():
            self._ended.set()
            self._thread.join(RENEWED)
            if not self.is_lost and self._is_ours():
                self._place.remove()

    def _take(self) -> None:
        found = self._place.read()
        owner = parse_owner(found) if found is not None else None
        if found is not None and not (owner and owner.is_dead()):
            self._watch(found, owner)
        self._write()
        time.sleep(SETTLES)
        if not self._is_ours():
            raise LeaseHeld(parse_owner(self._place.read() or b""))

    def _watch(self, found: bytes, owner: Owner | None) -> None:
        message = "%s has a lease (%s); watching for up to %.0f s whether its owner lives"
        logger.warning(message, self._place.where, owner, EXPIRES)
        ends = time.monotonic() + EXPIRES
        while time.monotonic() < ends:
            time.sleep(min(1.0, EXPIRES / 10))
            seen = self._place.read()
            if seen is None:
                return
            if seen != found:
                raise LeaseHeld(parse_owner(seen))

    def _renew(self) -> None:
        while not self._ended.wait(RENEWED):
            try:
                if not self._is_ours():
                    self.is_lost = True
                    logger.error("%s was taken over by another run; nothing more is written", self._place.where)
                    return
                self._write()
            except OSError as error:
                logger.warning("the lease of %s cannot be renewed now: %s", self._place.where, error)

    def _is_ours(self) -> bool:
        owner = parse_owner(self._place.read() or b"")
        return owner is None or owner.token == self._owner.token  # None: the lease was removed, and no other run has it

    def _write(self) -> None:
        self._beat += 1
        self._place.write(json.dumps({**vars(self._owner), "beat": self._beat}).encode())
