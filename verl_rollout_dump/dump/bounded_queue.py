"""`PendingTasks`: a queue bounded in tasks and in bytes, in which every wait has a bound.

The thread that holds its lock may take it again: a signal that arrives while the training thread is inside the queue
must be able to wait until the queue is empty (`Condition.wait` releases every level of the lock).
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable

Task = Callable[[], None]
Size = Callable[[], int]


class _WaitingTask:
    """A task that waits. Its size is computed at most once, and only if somebody needs it."""

    def __init__(self, task: Task, size: Size) -> None:
        self.task = task
        self._size = size

    @functools.cached_property
    def nbytes(self) -> int:
        """Bytes of memory that the task keeps."""
        return self._size()


class PendingTasks:
    """Tasks in the order in which they were put, with the bytes of memory that each keeps.

    A task that is larger than the bound is accepted when nothing else waits, since it would never fit otherwise.
    """

    def __init__(self, max_tasks: int, max_bytes: int) -> None:
        self._max_tasks = max_tasks
        self._max_bytes = max_bytes
        self._waiting: deque[_WaitingTask] = deque()
        self._put = 0
        self._done = 0
        self._is_closed = False
        self._changed = threading.Condition(threading.RLock())

    @property
    def unfinished(self) -> int:
        """The number of tasks that wait or run."""
        return self._put - self._done

    def has_room(self, *tasks: _WaitingTask) -> bool:
        """Return whether these tasks would be accepted now."""
        if not self._waiting:
            return True
        all_of_them = (*self._waiting, *tasks)
        return len(self._waiting) < self._max_tasks and sum(task.nbytes for task in all_of_them) <= self._max_bytes

    def put(self, task: Task, size: Size, seconds: float) -> bool:
        """Put a task as soon as there is room; return False if there was none for so many seconds.

        `size` returns the bytes of memory that the task keeps. It is called only if other tasks wait.
        """
        new = _WaitingTask(task, size)
        with self._changed:
            if not self._changed.wait_for(lambda: self.has_room(new), seconds):
                return False
            self._waiting.append(new)
            self._put += 1
            self._changed.notify_all()
            return True

    def take(self) -> Task | None:
        """Wait for a task and return it; return None when the queue is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting) or self._is_closed)
            if not self._waiting:
                return None
            task = self._waiting.popleft().task
            self._changed.notify_all()
            return task

    def note_done(self) -> None:
        """Record that the task that was taken has run."""
        with self._changed:
            self._done += 1
            self._changed.notify_all()

    def wait_until_done(self, seconds: float) -> bool:
        """Wait until all tasks that are here now have run; return False if they have not within so many seconds."""
        with self._changed:
            last = self._put
            return self._changed.wait_for(lambda: self._done >= last, seconds)

    def close(self) -> None:
        """End the thread that takes tasks when it has taken those that are here."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
