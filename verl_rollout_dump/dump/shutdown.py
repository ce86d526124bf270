"""The ends of a process: the steps that were handed over are written before it ends.

- The interpreter ends (normally, by an exception, by SIGINT's KeyboardInterrupt): dumps that are still open are closed.
- SIGTERM: without another handler, the dumps are ended as failed and the process then dies of the signal. If another
  handler was installed earlier, the steps are written and then that handler is called: it decides whether the run
  ends. A handler that is installed later replaces this one.
- SIGKILL, and `ray.kill`: nothing can be done; the files that are there are whole, and the next attempt starts.
- fork: the child has no writing thread. It writes nothing and holds no lock (see directory_lock.py).
- In Ray's processes, the driver asks for the end: see integrations/verl/driver_signals.py.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
from types import FrameType
from typing import Protocol

from verl_rollout_dump.config.schema import PathConfig
from verl_rollout_dump.config.urls import is_url
from verl_rollout_dump.storage.attempts import State

logger = logging.getLogger(__name__)

_GRACE_SECONDS = 20.0  # for writing after SIGTERM: most schedulers send SIGKILL after 30


class Endable(Protocol):
    """A dump that is open."""

    def flush(self, seconds: float | None = None) -> None:
        """Wait until all batches that were handed over are written, for at most `seconds`."""

    def end(self, state: State, seconds: float | None = None) -> None:
        """Flush, for at most `seconds`, and end the attempt; a second call does nothing."""


class _OpenDumps:
    """The open dumps of this process."""

    def __init__(self) -> None:
        self._dumps: dict[int, Endable] = {}  # by identity; kept alive: what was handed over must be written
        self._pid = os.getpid()
        self._previous: object = None
        self._closes_early = False
        self._was_terminated = False
        atexit.register(self.close_all)

    def add(self, dump: Endable, path: PathConfig) -> None:
        """End a dump, which writes to the directories of `path`, when the process ends."""
        if self._pid != os.getpid():
            self._dumps.clear()  # they belong to the parent of this process
            self._pid = os.getpid()
        self._dumps[id(dump)] = dump
        self._watch_sigterm()
        if any(is_url(place) for place in (path.dir, path.validation_dir) if place):
            self._close_before_executors()

    def remove(self, dump: Endable) -> None:
        """Forget a dump that has ended."""
        self._dumps.pop(id(dump), None)
        if not self._dumps and _is_main_thread() and signal.getsignal(signal.SIGTERM) == self._on_sigterm:
            signal.signal(signal.SIGTERM, self._previous)  # type: ignore[arg-type]

    def _close_before_executors(self) -> None:
        """Close when the main thread ends, while executors still take work: clients of remote stores need them.

        `atexit` is too late for that, and Python has no public function for this moment. Without it steps stay in the
        spool.
        """
        register = getattr(threading, "_register_atexit", None)
        if register is not None and not self._closes_early:
            self._closes_early = True
            register(self.close_all)

    def close_all(self) -> None:
        """End all dumps as the interpreter ends: as failed after SIGTERM or an exception that was not caught."""
        state: State = "failed" if self._was_terminated or hasattr(sys, "last_type") else "complete"
        for dump in self._own():
            try:
                dump.end(state)
            except Exception:
                logger.exception("a dump could not be ended as the interpreter ends")

    def end_failed(self) -> None:
        """End all dumps as failed, each within `_GRACE_SECONDS`: the process is about to be killed."""
        for dump in self._own():
            _end_failed(dump)

    def __len__(self) -> int:
        return len(self._own())

    def _watch_sigterm(self) -> None:
        handler = signal.getsignal(signal.SIGTERM)
        # None: set by C code and not callable from here; SIG_IGN: SIGTERM does not end this process
        if _is_main_thread() and handler not in (self._on_sigterm, None, signal.SIG_IGN):
            self._previous = handler
            signal.signal(signal.SIGTERM, self._on_sigterm)

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        previous = self._previous
        self._was_terminated = True
        if callable(previous):
            for dump in self._own():
                _flush(dump)
            previous(number, frame)
            return
        for dump in self._own():
            _end_failed(dump)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    def _own(self) -> list[Endable]:
        return list(self._dumps.values()) if self._pid == os.getpid() else []


def _is_main_thread() -> bool:
    """Whether signal handlers can be set from here."""
    return threading.current_thread() is threading.main_thread()


def _flush(dump: Endable) -> None:
    """Wait for a dump's steps; a failure is logged, since the process is about to end."""
    try:
        dump.flush(_GRACE_SECONDS)
    except Exception:
        logger.exception("rollouts may be missing: SIGTERM came, and a dump could not be flushed")


def _end_failed(dump: Endable) -> None:
    """End a dump as failed; a failure is logged, since the process is about to end."""
    try:
        dump.end("failed", _GRACE_SECONDS)
    except Exception:
        logger.exception("rollouts may be missing: the process is ended, and a dump could not be ended in time")


open_dumps = _OpenDumps()
