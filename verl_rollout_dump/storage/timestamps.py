"""The timestamps in `run.json` and in locks."""

from __future__ import annotations

from datetime import datetime, timezone


def now() -> str:
    """Return the present time in ISO 8601, UTC, to the millisecond; as text it sorts by time."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
