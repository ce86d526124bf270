"""A progress bar on standard error, for work that takes longer than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from verl_rollout_dump.reader.parallel import OnProgress

_PATIENCE = 1.0  # seconds


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[OnProgress]:
    """Yield a function to call with the bytes that are done. The bar appears after a second, and only in a terminal."""
    bar = Progress(
        TextColumn(what),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
        auto_refresh=False,
    )
    task = bar.add_task(what, total=total)
    begun = time.monotonic()
    started = False

    def advance(done: int) -> None:
        nonlocal started
        bar.advance(task, done)
        if not started and time.monotonic() - begun > _PATIENCE:
            bar.start()
            started = True
        if started:
            bar.refresh()

    try:
        yield advance
    finally:
        if started:
            bar.stop()
