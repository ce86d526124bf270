"""ISO 8601 durations, exact to the last digit."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal, localcontext

# Units of calendar length have no length in seconds.
CALENDAR = {"Y": "Y", "M": "M"}
SECONDS = {
    "W": Decimal(604800),
    "D": Decimal(86400),
    "h": Decimal(3600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("1e-3"),
    "us": Decimal("1e-6"),
    "ns": Decimal("1e-9"),
    "ps": Decimal("1e-12"),
    "fs": Decimal("1e-15"),
    "as": Decimal("1e-18"),
}


def duration_of_unit(count: int, unit: str) -> str:
    """Return a duration of `count` units of numpy (`ns`, `D`, `M`, ...), such as `P1DT2H3.5S`."""
    if unit in CALENDAR:
        return f"{'-' if count < 0 else ''}P{abs(count)}{CALENDAR[unit]}"
    with localcontext() as context:
        context.prec = 60
        return duration_of_seconds(count * SECONDS[unit])


def duration_of_timedelta(value: timedelta) -> str:
    """Return the duration of Python's timedelta."""
    microseconds = (value.days * 86400 + value.seconds) * 1_000_000 + value.microseconds
    return duration_of_unit(microseconds, "us")


def duration_of_seconds(seconds: Decimal) -> str:
    """Return the duration of a number of seconds."""
    sign = "-" if seconds < 0 else ""
    whole_minutes, seconds = divmod(abs(seconds), 60)
    hours, minutes = divmod(int(whole_minutes), 60)
    days, hours = divmod(hours, 24)
    spelled = f"{seconds:f}"
    if "." in spelled:
        spelled = spelled.rstrip("0").rstrip(".")
    clock = "".join(
        f"{amount}{unit}" for amount, unit in ((hours, "H"), (minutes, "M"), (spelled, "S")) if amount not in (0, "0")
    )
    date = f"{days}D" if days else ""
    return f"{sign}P{date}{'T' + clock if clock else ''}" if date or clock else "PT0S"
