"""`verl-rollout-dump view`: a viewer for the terminal, in textual.

The steps and the curve of their scores are on the left, the records of a step by groups in the middle, one record on
the right. Only what is on the screen is read, so a dump of gigabytes opens at once.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from verl_rollout_dump.reader import Dump
from verl_rollout_dump.reader.optional_imports import require

if TYPE_CHECKING:
    from textual.app import App


def run_viewer(dump: Dump) -> None:
    """Run the viewer until the user quits. Raises `MissingPackageError`, `DumpReadError`."""
    require("textual", "view")
    from verl_rollout_dump.viewer.app import ViewerApp
    from verl_rollout_dump.viewer.source import ViewerSource

    with ViewerSource(dump) as source:
        asyncio.run(_run_until_interrupt(ViewerApp(source)))


async def _run_until_interrupt(app: App[None]) -> None:
    """Run the viewer. SIGINT ends it as `q` does, so that the terminal is restored; afterwards its former effect is."""
    former = signal.getsignal(signal.SIGINT)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, app.exit)
    try:
        await app.run_async()
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, former)
