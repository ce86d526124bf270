"""Part of bench_dump.py: what a dump in the background takes from a busy Python loop on the training thread.

The loop is the worst case: it wants the GIL all the time. A trainer waits for its workers most of the time.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from measuring import Row, spread
from sides import SIDES, Bench, OurDump, TrainingBatch, VerlDump, remove_steps

ROUNDS = 2000


class Pace(NamedTuple):
    """How fast the loop was, for how long, and which share of that time it did not run at all."""

    rate: float
    seconds: float
    waiting: float


def pace_until(done: Callable[[], bool]) -> Pace:
    """Compute in pure Python until `done` says so."""
    count, value, start, ran = 0, 1, time.perf_counter(), time.thread_time()
    while not done():
        for _ in range(ROUNDS):
            value = (value * 1103515245 + 12345) & 0x7FFFFFFF
        count += ROUNDS
    seconds, ran = time.perf_counter() - start, time.thread_time() - ran
    return Pace(count / seconds, seconds, 1 - ran / seconds)


def quiet_pace(seconds: float) -> Pace:
    """Return the pace while no dump runs."""
    end = time.perf_counter() + seconds
    return pace_until(lambda: time.perf_counter() > end)


def pace_during(dump: VerlDump | OurDump, step: int, batch: TrainingBatch) -> Pace:
    """Return the pace from the moment the hand-over returns until the file is there."""
    done = threading.Event()

    def wait() -> None:
        dump.finish()
        done.set()

    dump.hand_over(step, batch)
    waiting = threading.Thread(target=wait)
    waiting.start()
    pace = pace_until(done.is_set)
    waiting.join()
    return pace


def busy_training_thread(bench: Bench) -> list[Row]:
    """How much slower a pure-Python loop on the training thread is while the dump runs in the background."""
    rows = []
    for shape in bench.shapes:
        with tempfile.TemporaryDirectory() as folder:
            dumps = {name: make(bench.tokenizer, Path(folder, name)) for name, make in SIDES.items()}
            paces: dict[str, list[tuple[Pace, Pace]]] = {name: [] for name in dumps}
            for _ in range(bench.repeats[shape] + 1):
                for name, dump in dumps.items():
                    during = pace_during(dump, bench.next_step(), bench.batch(shape))
                    paces[name].append((during, quiet_pace(max(during.seconds, 0.05))))
                    remove_steps(Path(folder, name))
            for dump in dumps.values():
                dump.close()
        rows += [pace_row(shape, name, runs[1:]) for name, runs in paces.items()]
    return rows


def pace_row(shape: str, side: str, runs: list[tuple[Pace, Pace]]) -> Row:
    """Put one side's figures together."""
    slower = [100 * (1 - during.rate / quiet.rate) for during, quiet in runs]
    waiting = [100 * (during.waiting - quiet.waiting) for during, quiet in runs]
    lost = [share / 100 * during.seconds * 1e3 for share, (during, _) in zip(slower, runs, strict=True)]
    return {
        "shape": shape,
        "side": side,
        "for_ms": spread(during.seconds * 1e3 for during, _ in runs),
        "slower_percent": spread(slower),
        "waiting_percent": spread(waiting),
        "lost_ms": round(statistics.median(lost), 2),
    }
