"""Process many files in several processes, with the results in the order of the files.

Threads would not help, since parsing JSON holds the GIL. The processes are spawned: a fork would copy the locks of
threads that do not exist in the child.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import NamedTuple, TypeVar

from verl_rollout_dump.reader.errors import DumpReadError
from verl_rollout_dump.reader.files import DumpFile

_Result = TypeVar("_Result")
WORTH_PROCESSES = 64 << 20  # bytes; for less, starting processes takes longer than the work
TASK_SIZE = 16 << 20  # bytes of small files that form one task
_TASK_FILES = 2000
OnProgress = Callable[[int], None]  # called with the bytes processed since the last call


def ignore_progress(done: int) -> None:
    """Do nothing: the default `on_progress`."""


def size_of(file: DumpFile) -> int:
    """Return the size of a file in bytes; 0 if it no longer exists."""
    try:
        return os.stat(file.path).st_size
    except FileNotFoundError:
        return 0


class _Task(NamedTuple):
    """Files that are processed together, and the size of each in bytes."""

    files: list[DumpFile]
    sizes: list[int]


def tasks_of(files: Sequence[DumpFile]) -> list[_Task]:
    """Split a list of files into tasks. Files of one step stay together."""
    tasks: list[_Task] = []
    size = 0
    for file in files:
        same_step = bool(tasks) and tasks[-1].files[-1].step == file.step  # None: any step, so such files form one task
        if not tasks or ((size >= TASK_SIZE or len(tasks[-1].files) >= _TASK_FILES) and not same_step):
            tasks.append(_Task([], []))
            size = 0
        tasks[-1].files.append(file)
        tasks[-1].sizes.append(size_of(file))
        size += tasks[-1].sizes[-1]
    return tasks


def for_files(
    work: Callable[[list[DumpFile]], _Result],
    files: Sequence[DumpFile],
    workers: int = 1,
    on_progress: OnProgress = ignore_progress,
) -> Iterator[_Result]:
    """Yield what `work` returns for each task (a list of files), in order.

    With several workers and large files, processes are started: `work` must be importable by name, and a script that
    calls this needs `if __name__ == "__main__":`, as with multiprocessing in general.
    """
    tasks = tasks_of(files)
    sizes = [sum(task.sizes) for task in tasks]
    if workers < 2 or len(tasks) < 2 or sum(sizes) < WORTH_PROCESSES:
        for task, size in zip(tasks, sizes, strict=True):
            yield work(task.files)
            on_progress(size)
        return
    results = _in_processes(work, [task.files for task in tasks], min(workers, len(tasks)))
    for result, size in zip(results, sizes, strict=True):
        yield result
        on_progress(size)


def _in_processes(
    work: Callable[[list[DumpFile]], _Result], tasks: list[list[DumpFile]], workers: int
) -> Iterator[_Result]:
    """Yield the results of the tasks, in order. The processes end with the generator, however it ends."""
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_end_with_parent) as pool:
        try:
            with _blocked_interrupts():
                futures = deque(pool.submit(work, task) for task in tasks)
            while futures:
                yield futures.popleft().result()
        except BrokenProcessPool as error:
            raise DumpReadError(
                "a process that read the dump was ended from outside, perhaps for want of memory; try --workers 1"
            ) from error
        except BaseException:  # not cancelled: the pool fails where a process ends that had a cancelled task
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise


@contextmanager
def _blocked_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back; processes that are started here never get it: what it does is decided by their parent."""
    resource_tracker.ensure_running()  # its start would end the blocking
    former = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _end_with_parent() -> None:
    """Let this process end when its parent has been killed: nothing else would tell it."""
    threading.Thread(target=_wait_for_end_of_parent, daemon=True).start()


def _wait_for_end_of_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
