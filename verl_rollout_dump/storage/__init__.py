"""The files of a dump: their names, how they are written whole, who may write them, and remote stores."""

from __future__ import annotations

from typing import Any

__all__ = ["Store", "StoreError", "upload_spool"]


def __getattr__(name: str) -> Any:
    """Import what users need of remote stores at its first use: it brings fsspec in (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from verl_rollout_dump.storage import remote

    return getattr(remote, name)
