"""The time of day as it stands in `run.json` and in locks."""

from __future__ import annotations

from datetime import datetime, timezone


def now() -> str:
    """Return the present time in ISO 8601, UTC, to the millisecond: attempts are put in order by it."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
