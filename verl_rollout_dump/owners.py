"""Who holds a lock: a process of a host, told apart from later processes that got the same pid."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from verl_rollout_dump.clock import now

START_TIME = 19  # of the fields behind the name in /proc/PID/stat (proc(5): field 22)


@dataclass(frozen=True)
class Owner:
    """A process that holds a lock."""

    host: str
    pid: int
    # ISO 8601, UTC: when it took the lock.
    started: str
    # When the process itself began, in ticks since boot; empty where the system does not tell.
    process: str
    # Unlike that of any other lock ever taken.
    token: str

    def __str__(self) -> str:
        return f"host {self.host}, pid {self.pid}, since {self.started}"

    def is_dead(self) -> bool:
        """Whether the process is known to have ended. Of another host nothing is known."""
        return self.host == socket.gethostname() and process_start(self.pid) != self.process


def owner_of_process() -> Owner:
    """Return this process as the owner of a new lock."""
    return Owner(socket.gethostname(), os.getpid(), now(), process_start(os.getpid()) or "", uuid4().hex)


def parse_owner(content: bytes) -> Owner | None:
    """Read an owner; None: the content is none (a run that has only just begun has not written it yet)."""
    try:
        entry = json.loads(content)
        return Owner(**{name: entry[name] for name in Owner.__dataclass_fields__})
    except (ValueError, KeyError, TypeError):
        return None


def process_start(pid: int) -> str | None:
    """Return when a process of this host began; None: there is none; empty: the system does not tell."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # it lives, and belongs to somebody else
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[START_TIME]
    except (OSError, IndexError):
        return ""
