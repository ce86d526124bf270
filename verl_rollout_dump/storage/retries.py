"""Trying again: which faults of a disk may pass, and how long to try.

A full disk is made room on, a quota is raised, a network file system comes back: such faults are tried again with
growing pauses. A missing folder, a read-only file system or a missing permission are not: they do not pass by
themselves.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

logger = logging.getLogger(__name__)

MAY_PASS = {
    getattr(errno, name)
    for name in (
        *("EIO", "ENOSPC", "EDQUOT", "EAGAIN", "ESTALE", "ETIMEDOUT", "EBUSY", "ENOMEM", "EMFILE", "ENFILE"),
        *("ENOLCK", "EREMOTEIO", "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH", "ECONNRESET"),
    )
    if hasattr(errno, name)
}
FIRST_PAUSE = 0.1  # seconds
LONGEST_PAUSE = 5.0

T = TypeVar("T")


class Retries:
    """Runs something until it succeeds, for at most `seconds`, and only while `may_wait` says that nobody waits."""

    def __init__(self, seconds: float, may_wait: Callable[[], bool]) -> None:
        self._seconds = seconds
        self._may_wait = may_wait
        self._hurry = threading.Event()

    def hurry(self) -> None:
        """From now on try once: the process is about to end."""
        self._hurry.set()

    def run(self, what: str, attempt: Callable[[], T]) -> T:
        """Return what the attempt returns; raises what its last try raised."""
        ends = time.monotonic() + self._seconds
        pause = FIRST_PAUSE
        while True:
            try:
                return attempt()
            except OSError as error:
                late = time.monotonic() + pause > ends
                if error.errno not in MAY_PASS or late or not self._may_wait() or self._hurry.is_set():
                    raise
                logger.warning("%s failed (%s); trying again in %.1f s", what, error, pause)
            self._hurry.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
