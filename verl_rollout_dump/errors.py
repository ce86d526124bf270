"""How a dump speaks to people: the error that reaches a training, and messages that are logged once per kind."""

from __future__ import annotations

import logging
import threading
from collections.abc import Hashable


class DumpError(RuntimeError):
    """A step could not be dumped, or a dump could not be started. The cause is chained.

    Reaches the training only under `on_error: raise`, or when a dump starts.
    """


class OnceLogger:
    """Logs the first message of each kind and counts all of them. Safe to use from several threads.

    The lock may be taken again by a signal handler that interrupts its holder.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self.counts: dict[Hashable, int] = {}
        self._logger = logger
        self._lock = threading.RLock()

    def count(self, kind: Hashable) -> bool:
        """Count one message of a kind without logging it; return whether it is the first."""
        with self._lock:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            return self.counts[kind] == 1

    def warning(self, kind: Hashable, message: str) -> None:
        """Count a message, and log it as a warning if it is the first of its kind."""
        if self.count(kind):
            self._logger.warning("%s (logged once; the report counts them)", message)

    def error(self, kind: Hashable, message: str, cause: BaseException) -> None:
        """Count a message, and log it as an error with its traceback if it is the first of its kind."""
        if self.count(kind):
            self._logger.error("%s (logged once; the report counts them)", message, exc_info=cause)
