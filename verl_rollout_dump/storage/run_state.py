"""Whether the run that writes a dump lives, and which steps it took and never wrote.

`run.json` says `running` until an attempt ends; a run that is killed leaves it so. Then the lock tells: the process
that holds it is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verl_rollout_dump.storage.attempts import Attempt
from verl_rollout_dump.storage.handover_log import read_handover_log
from verl_rollout_dump.storage.lease import EXPIRES, Owner, parse_owner
from verl_rollout_dump.storage.run_record import read_content
from verl_rollout_dump.storage.step_files import RUN_LEASE, RUN_LOCK, shard_folders
from verl_rollout_dump.storage.steps import format_steps


@dataclass(frozen=True)
class _DeadRun:
    """A run that ended without updating `run.json`, because it was killed or its machine stopped."""

    host: str
    pid: int
    # Steps that were handed over and are neither written, failed nor dropped.
    unwritten: frozenset[int]

    def __str__(self) -> str:
        where = f" of host {self.host}" if self.host != socket.gethostname() else ""
        return f"ended without a word (pid {self.pid}{where} is gone)"


def dead_runs(directory: Path) -> list[_DeadRun]:
    """Return the runs of a dump, one for each writer, that are `running` in `run.json` and no longer live."""
    folders = (directory, *shard_folders(directory))
    return [dead for folder in folders if (dead := _dead_run(folder)) is not None]


def end_of_run(directory: Path) -> str:
    """Return how the runs that were killed ended and which steps are lost, or "" if none was killed."""
    dead = dead_runs(directory)
    lost = format_steps({step for run in dead for step in run.unwritten})
    causes = ", ".join(map(str, dead))
    return f"{causes}; steps {lost} were handed over and not written" if lost else causes


def unwritten_steps(directory: Path) -> set[int]:
    """Return the steps that any attempt took and did not write, and that no attempt wrote later.

    Steps that a live run still writes are not among them.
    """
    unwritten: set[int] = set()
    for folder in (directory, *shard_folders(directory)):
        attempts = _attempts(folder)
        written = {step for attempt in attempts for step in attempt.steps}
        dead = _dead_run(folder)
        ended = {step for attempt in attempts if attempt.state != "running" for step in attempt.pending}
        unwritten |= (ended | (dead.unwritten if dead else set())) - written
    return unwritten


def is_alive(folder: Path) -> bool:
    """Return whether a live run holds the lock of a folder."""
    owner = _owner(folder / RUN_LOCK)
    if owner is not None and owner.host == socket.gethostname():
        return not owner.is_dead()
    return _is_locked(folder / RUN_LOCK) or _has_live_lease(folder / RUN_LEASE)


def _dead_run(folder: Path) -> _DeadRun | None:
    running = [attempt for attempt in _attempts(folder) if attempt.state == "running"]
    if not running or not running[-1].pid or is_alive(folder):  # pid 0: another program wrote `run.json`
        return None
    last = running[-1]
    unwritten = (last.pending | read_handover_log(folder)) - last.steps - last.failed - last.dropped
    return _DeadRun(last.host, last.pid, frozenset(unwritten))


def _attempts(folder: Path) -> list[Attempt]:
    """Return the attempts in a folder's `run.json`; empty if it is missing or cannot be read (`check` reports that)."""
    content = read_content(folder)
    try:
        record: dict[str, Any] = json.loads(content) if content is not None else {}
        return [Attempt.from_json(entry) for entry in record.get("attempts", ())]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def _owner(path: Path) -> Owner | None:
    try:
        return parse_owner(path.read_bytes())
    except OSError:  # no lock, or not readable for this user
        return None


def _is_locked(path: Path) -> bool:
    """Return whether a process of any host holds the flock of a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _has_live_lease(path: Path) -> bool:
    """Return whether a lease was renewed within the time after which it expires."""
    with contextlib.suppress(FileNotFoundError):
        owner = _owner(path)
        return not (owner and owner.is_dead()) and time.time() - path.stat().st_mtime < EXPIRES
    return False
