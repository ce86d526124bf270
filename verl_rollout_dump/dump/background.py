"""Runs the work on a step that was handed over: at once, or on a thread behind a bounded queue.

A thread and not a process, because pickling the batch into a pipe costs the training thread more than the writing
thread takes from it (docs/performance.md). Tasks report their own failures; the thread survives a task that raises.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from verl_rollout_dump.config.schema import Mode, WhenFull, WriterConfig
from verl_rollout_dump.dump.bounded_queue import PendingTasks, Size, Task

logger = logging.getLogger(__name__)

_POLL_SECONDS = 10.0  # how often a waiting caller checks that the thread is alive, and logs what it waits for
_NO_BYTE_LIMIT = 1 << 62
_NO_BYTES: Size = int  # gives 0


class QueueFull(RuntimeError):
    """The queue has no room, and `writer.when_full` is `error`."""


class WaitedTooLong(TimeoutError):
    """A wait reached its bound, `writer.timeout_seconds`. The message says what was waited for."""


class _Dispatch(Protocol):
    """Runs tasks in the order in which they were submitted."""

    # Seconds that callers of `submit` waited for room.
    seconds_blocked: float

    def submit(self, task: Task, size: Size = _NO_BYTES) -> bool:
        """Run a task now or later; return False if it was dropped.

        `size()` is the number of bytes of memory that the task keeps. Raises `QueueFull` and `WaitedTooLong`.
        """

    def has_room(self) -> bool:
        """Return whether another task could wait now, so that a running task may take its time."""

    def flush(self, seconds: float | None = None) -> None:
        """Return when all submitted tasks have run.

        `seconds` bounds the wait; None: `writer.timeout_seconds`. Raises `WaitedTooLong`.
        """

    def close(self, seconds: float | None = None) -> None:
        """Flush and stop. Raises `WaitedTooLong` after stopping; later calls of `submit` raise `RuntimeError`."""


class InlineDispatch:
    """Runs each task on the caller's thread."""

    seconds_blocked = 0.0

    def submit(self, task: Task, size: Size = _NO_BYTES) -> bool:
        """Run the task."""
        task()
        return True

    def has_room(self) -> bool:
        """Return False: while a task runs, the training waits."""
        return False

    def flush(self, seconds: float | None = None) -> None:
        """Return at once: no task waits."""

    def close(self, seconds: float | None = None) -> None:
        """Return at once: no task runs."""


class BackgroundDispatch:
    """Runs tasks on one daemon thread, at most `max_pending` of them, and `max_bytes`, waiting."""

    def __init__(
        self, max_pending: int, when_full: WhenFull, max_bytes: int = _NO_BYTE_LIMIT, timeout: float = 600.0
    ) -> None:
        self.seconds_blocked = 0.0
        self._max_pending = max_pending
        self._timeout = timeout
        self._pending = PendingTasks(max_pending, max_bytes)
        self._put = {WhenFull.block: self._block, WhenFull.drop: self._drop, WhenFull.error: self._refuse}[when_full]
        self._thread = threading.Thread(target=self._run, name="verl-rollout-dump", daemon=True)
        self._thread.start()
        self._closed = False

    def submit(self, task: Task, size: Size = _NO_BYTES) -> bool:
        """Put a task into the queue; if it is full, do what `when_full` says."""
        if self._closed:
            raise RuntimeError("the dump is closed; a batch that comes now is not written")
        return self._pending.put(task, size, 0.0) or self._put(task, size)

    def has_room(self) -> bool:
        """Return whether another task could wait now."""
        return self._pending.has_room()

    def flush(self, seconds: float | None = None) -> None:
        """Return when all submitted tasks have run."""
        self._wait(self._pending.wait_until_done, f"{self._pending.unfinished} steps to be written", seconds)

    def close(self, seconds: float | None = None) -> None:
        """Let the thread finish the queue, and end it."""
        if self._closed:
            return
        self._closed = True
        try:
            self.flush(seconds)
        finally:
            self._pending.close()
        self._wait(self._joined, "the writing thread to end", seconds)

    def _run(self) -> None:
        while (task := self._pending.take()) is not None:
            try:
                task()
            except Exception:
                logger.exception("a task of the writing thread failed without reporting it")
            finally:
                del task  # the batch may be large; do not keep it until the next one comes
                self._pending.note_done()

    def _joined(self, timeout: float) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _wait(self, wait: Callable[[float], bool], what: str, seconds: float | None) -> None:
        """Wait, and log it every `_POLL_SECONDS`. Raises `WaitedTooLong` at the bound, or if the thread has ended."""
        bound = self._timeout if seconds is None else seconds
        started = time.monotonic()
        while not wait(min(_POLL_SECONDS, max(0.0, started + bound - time.monotonic()))):
            waited = time.monotonic() - started
            if waited >= bound:
                raise WaitedTooLong(f"waited {waited:.0f} s for {what}; the disk is too slow, or hangs")
            if not self._thread.is_alive():
                raise WaitedTooLong(f"the writing thread has ended, and cannot be waited for ({what})")
            logger.warning("waiting for %s since %.0f s", what, waited)

    def _block(self, task: Task, size: Size) -> bool:
        started = time.monotonic()
        try:
            self._wait(lambda seconds: self._pending.put(task, size, seconds), "room in the queue of rollouts", None)
        finally:
            self.seconds_blocked += time.monotonic() - started
        return True

    def _drop(self, task: Task, size: Size) -> bool:
        return False

    def _refuse(self, task: Task, size: Size) -> bool:
        raise QueueFull(
            f"{self._max_pending} batches wait to be written (or batches of writer.max_pending_bytes) and "
            "rollout_dump.writer.when_full=error. Raise writer.max_pending, or choose when_full=block or drop"
        )


def _background(config: WriterConfig) -> BackgroundDispatch:
    """Start the writing thread."""
    return BackgroundDispatch(
        config.max_pending, config.when_full, config.max_pending_bytes, float(config.timeout_seconds)
    )


DISPATCHES: dict[Mode, Callable[[WriterConfig], _Dispatch]] = {
    Mode.inline: lambda config: InlineDispatch(),
    Mode.background: _background,
}
