"""Where the work on a handed-over step is done: at once, or by a thread behind a bounded queue.

A thread, not a process: pickling the batch into a pipe costs the training thread more than the thread takes from
it (README, "How fast"). Tasks never raise: what fails is their own to report.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

from verl_rollout_dump.config.schema import Mode, WhenFull, WriterConfig

logger = logging.getLogger(__name__)

Task = Callable[[], None]
POLL_SECONDS = 10.0  # how often a waiting caller looks whether the thread still lives, and says what it waits for


class QueueFull(RuntimeError):
    """The queue had no room, and `when_full: error`."""


class Dispatch(Protocol):
    """Runs tasks in the order in which they were submitted."""

    seconds_blocked: float

    def submit(self, task: Task) -> bool:
        """Run a task now or later; False: it was dropped. Raises `QueueFull`."""

    def flush(self) -> None:
        """Return when all tasks that were submitted have run."""

    def close(self) -> None:
        """Flush, and stop. Submitting afterwards raises RuntimeError."""


class InlineDispatch:
    """Runs each task on the caller's thread."""

    seconds_blocked = 0.0

    def submit(self, task: Task) -> bool:
        """Run the task."""
        task()
        return True

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing runs."""


class BackgroundDispatch:
    """Runs tasks on one daemon thread, at most `max_pending` of them waiting."""

    def __init__(self, max_pending: int, when_full: WhenFull) -> None:
        self.seconds_blocked = 0.0
        self._queue: queue.Queue[Task | None] = queue.Queue(maxsize=max_pending)
        self._put = {WhenFull.block: self._block, WhenFull.drop: self._drop, WhenFull.error: self._refuse}[when_full]
        self._thread = threading.Thread(target=self._run, name="verl-rollout-dump", daemon=True)
        self._thread.start()
        self._closed = False

    def submit(self, task: Task) -> bool:
        """Put a task into the queue, or do what `when_full` says."""
        if self._closed:
            raise RuntimeError("the dump is closed; a batch that comes now is not written")
        try:
            self._queue.put_nowait(task)
        except queue.Full:
            return self._put(task)
        return True

    def flush(self) -> None:
        """Return when the queue is empty and nothing runs."""
        done = threading.Event()
        if self._thread.is_alive():
            self._block(done.set)
            self._wait(done.wait, "rollouts to be written")

    def close(self) -> None:
        """Let the thread finish what is in the queue, and end it."""
        if self._closed:
            return
        self.flush()
        self._closed = True
        self._queue.put(None)
        self._wait(self._joined, "the writing thread to end")

    def _run(self) -> None:
        while (task := self._queue.get()) is not None:
            task()
            del task  # the batch may be large; do not keep it until the next one comes

    def _joined(self, timeout: float) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _wait(self, wait: Callable[[float], bool], what: str) -> None:
        started = time.monotonic()
        while not wait(POLL_SECONDS) and self._thread.is_alive():
            logger.warning("waiting for %s since %.0f s", what, time.monotonic() - started)

    def _block(self, task: Task) -> bool:
        started = time.monotonic()
        self._wait(lambda seconds: self._put_within(task, seconds), "room in the queue of rollouts")
        self.seconds_blocked += time.monotonic() - started
        return True

    def _put_within(self, task: Task, seconds: float) -> bool:
        try:
            self._queue.put(task, timeout=seconds)
        except queue.Full:
            return False
        return True

    def _drop(self, task: Task) -> bool:
        return False

    def _refuse(self, task: Task) -> bool:
        raise QueueFull(
            f"{self._queue.maxsize} batches wait to be written and rollout_dump.writer.when_full=error. "
            "Raise writer.max_pending, or choose when_full=block or drop"
        )


DISPATCHES: dict[Mode, Callable[[WriterConfig], Dispatch]] = {
    Mode.inline: lambda config: InlineDispatch(),
    Mode.background: lambda config: BackgroundDispatch(config.max_pending, config.when_full),
}
