"""`PendingTasks`: a bounded queue, counted in tasks and in bytes, whose every wait has an end.

Its lock may be taken again by the thread that holds it: a signal that arrives while the training thread is inside
the queue must be able to wait until the queue is empty (`Condition.wait` gives back all that the thread holds).
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable

Task = Callable[[], None]
Size = Callable[[], int]


class WaitingTask:
    """A task that waits, and how many bytes of memory it keeps: asked at most once, when it is of interest."""

    def __init__(self, task: Task, size: Size) -> None:
        self.task = task
        self._size = size

    @functools.cached_property
    def nbytes(self) -> int:
        """How many bytes of memory the task keeps."""
        return self._size()


class PendingTasks:
    """Tasks in the order in which they were put, with the bytes of memory that each keeps.

    A task of more bytes than the bound is taken when nothing else waits: it would never fit otherwise.
    """

    def __init__(self, max_tasks: int, max_bytes: int) -> None:
        self._max_tasks = max_tasks
        self._max_bytes = max_bytes
        self._waiting: deque[WaitingTask] = deque()
        self._put = 0
        self._done = 0
        self._is_closed = False
        self._changed = threading.Condition(threading.RLock())

    @property
    def unfinished(self) -> int:
        """How many tasks wait or run."""
        return self._put - self._done

    def has_room(self, *tasks: WaitingTask) -> bool:
        """Whether these tasks would be taken now."""
        if not self._waiting:
            return True
        all_of_them = (*self._waiting, *tasks)
        return len(self._waiting) < self._max_tasks and sum(task.nbytes for task in all_of_them) <= self._max_bytes

    def put(self, task: Task, size: Size, seconds: float) -> bool:
        """Put a task as soon as there is room; False: there was none for so many seconds.

        `size` tells how many bytes of memory the task keeps. It is asked only if other tasks wait.
        """
        new = WaitingTask(task, size)
        with self._changed:
            if not self._changed.wait_for(lambda: self.has_room(new), seconds):
                return False
            self._waiting.append(new)
            self._put += 1
            self._changed.notify_all()
            return True

    def take(self) -> Task | None:
        """Wait for a task and return it; None: the queue is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting) or self._is_closed)
            if not self._waiting:
                return None
            task = self._waiting.popleft().task
            self._changed.notify_all()
            return task

    def note_done(self) -> None:
        """The task that was taken has run."""
        with self._changed:
            self._done += 1
            self._changed.notify_all()

    def wait_until_done(self, seconds: float) -> bool:
        """Wait until all tasks that are in here now have run; False: they have not within so many seconds."""
        with self._changed:
            last = self._put
            return self._changed.wait_for(lambda: self._done >= last, seconds)

    def close(self) -> None:
        """Let the taker end when it has taken what is here."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
