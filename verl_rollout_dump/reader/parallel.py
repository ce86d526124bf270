"""Do the same work on many files by several processes, the results in the order of the files.

Parsing JSON holds Python's lock, so threads would not help. Processes are started anew (`spawn`): a fork would copy
the state of threads that are not copied.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from verl_rollout_dump.reader.files import DumpFile

Result = TypeVar("Result")
WORTH_PROCESSES = 64 << 20  # bytes; below, starting a process takes as long as the work
TASK_SIZE = 16 << 20  # bytes of small files that go to a process together
TASK_FILES = 2000
OnProgress = Callable[[int], None]  # gets the bytes that were done since the last call


def ignore_progress(done: int) -> None:
    """Show nothing."""


def size_of(file: DumpFile) -> int:
    """Return the size of a file in bytes; 0 where it has been moved away."""
    try:
        return os.stat(file.path).st_size
    except FileNotFoundError:
        return 0


def tasks_of(files: Sequence[DumpFile]) -> list[list[DumpFile]]:
    """Cut a list of files into tasks. Files of one step stay together."""
    tasks: list[list[DumpFile]] = []
    size = 0
    for file in files:
        same_step = bool(tasks) and tasks[-1][-1].step == file.step  # None: any step, so all of these
        if not tasks or ((size >= TASK_SIZE or len(tasks[-1]) >= TASK_FILES) and not same_step):
            tasks.append([])
            size = 0
        tasks[-1].append(file)
        size += size_of(file)
    return tasks


def for_files(
    work: Callable[[list[DumpFile]], Result],
    files: Sequence[DumpFile],
    workers: int = 1,
    on_progress: OnProgress = ignore_progress,
) -> Iterator[Result]:
    """Yield what `work` returns for each task (some files), in order.

    `work` must be importable by its name. With more than one worker and much to do, processes are started; a script
    that calls this needs `if __name__ == "__main__":`, as all users of multiprocessing do.
    """
    tasks = tasks_of(files)
    sizes = [sum(map(size_of, task)) for task in tasks]
    if workers < 2 or len(tasks) < 2 or sum(sizes) < WORTH_PROCESSES:
        for task, size in zip(tasks, sizes, strict=True):
            yield work(task)
            on_progress(size)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(tasks)), mp_context=context) as pool:
        for result, size in zip(pool.map(work, tasks), sizes, strict=True):
            yield result
            on_progress(size)
