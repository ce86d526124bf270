"""The error by which a failed dump reaches the training, under `on_error: raise` alone."""

from __future__ import annotations


class DumpError(RuntimeError):
    """A step could not be dumped, or a dump could not be started. The cause is chained."""
