"""Retries: which faults of a disk may pass, and how long to try.

Room is made on a full disk, a quota is raised, a network file system comes back: after such faults writing is tried
again with growing pauses. After other faults (no permission, a read-only file system) it is not, since they do not
pass by themselves.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from verl_rollout_dump.errors import OnceLogger

logger = logging.getLogger(__name__)

_MAY_PASS = {
    getattr(errno, name)
    for name in (
        *("EIO", "ENOSPC", "EDQUOT", "EAGAIN", "ESTALE", "ETIMEDOUT", "EBUSY", "ENOMEM", "EMFILE", "ENFILE"),
        *("ENOLCK", "EREMOTEIO", "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH", "ECONNRESET"),
    )
    if hasattr(errno, name)
}
_FIRST_PAUSE = 0.1  # seconds
LONGEST_PAUSE = 5.0

_T = TypeVar("_T")


class Retries:
    """Runs a function until it succeeds, for at most `seconds`, and only while `may_wait()` is true."""

    def __init__(self, seconds: float, may_wait: Callable[[], bool]) -> None:
        self._seconds = seconds
        self._may_wait = may_wait
        self._hurry = threading.Event()
        self._once = OnceLogger(logger)

    def hurry(self) -> None:
        """Try only once from now on: the process is about to end."""
        self._hurry.set()

    def run(self, what: str, attempt: Callable[[], _T]) -> _T:
        """Return what `attempt` returns; raises what its last try raised."""
        ends = time.monotonic() + self._seconds
        pause = _FIRST_PAUSE
        while True:
            try:
                return attempt()
            except OSError as error:
                is_over = time.monotonic() + pause > ends
                if error.errno not in _MAY_PASS or is_over or not self._may_wait() or self._hurry.is_set():
                    raise
                if self._once.count(error.errno):
                    message = "%s failed (%s); trying again for up to %.0f s. Retries after this error are logged once"
                    logger.warning(message, what, error, self._seconds)
            self._hurry.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
