"""Parse lines into records: strict JSON, and JSON with the faults that real writers leave.

Accepted faults: bare `NaN` and `Infinity` (verl's own writer leaves them), a BOM at the start of a file, `\\r` before
the `\\n`, bytes that are not UTF-8 (they become U+FFFD), lone surrogates.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from verl_rollout_dump.reader.errors import NOT_AN_OBJECT, NOT_JSON, TOO_LONG, TORN
from verl_rollout_dump.reader.lines import BOM, Line
from verl_rollout_dump.serialization.text import repair_text

Record = dict[str, Any]
_LONGEST_INTEGER = 20  # characters of a 64-bit integer
_SHOWN = 80  # bytes of a bad line in messages


def parse_line(data: bytes) -> Any:
    """Return the value of a line. Raises ValueError if it is not JSON, not even with the accepted faults."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return _parse_leniently(data)


def _parse_leniently(data: bytes) -> Any:
    """Parse JSON that is not strict, as Python's json does. Raises ValueError if it is not JSON at all."""
    text = data.removeprefix(BOM).decode("utf-8", "replace")
    try:
        value = json.loads(text, parse_int=_integer_of)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return _with_valid_text(value)


def _integer_of(digits: str) -> int | float:
    """Return an integer, or a float beyond 64 bits, as the strict parser does."""
    if len(digits) > _LONGEST_INTEGER:
        return float(digits)
    value = int(digits)
    return value if -(2**63) <= value < 2**64 else float(value)


def _with_valid_text(value: Any) -> Any:
    """Return a value with all its texts repaired to valid UTF-8."""
    if isinstance(value, str):
        return repair_text(value)
    if isinstance(value, list):
        return [_with_valid_text(item) for item in value]
    if isinstance(value, dict):
        return {repair_text(key): _with_valid_text(item) for key, item in value.items()}
    return value


def record_of(line: Line) -> Record | str | None:
    """Return the record of a line, None for a blank line, or a text: why the line is not a record.

    This function is the one definition of a record for all commands.
    """
    try:
        value = orjson.loads(line.data)
    except orjson.JSONDecodeError:
        if line.is_too_long:
            return TOO_LONG
        if not line.data.strip(b" \t\r" + BOM):
            return None
        try:
            value = _parse_leniently(line.data)
        except ValueError:
            return NOT_JSON if line.is_ended else TORN
    return value if isinstance(value, dict) else NOT_AN_OBJECT


def excerpt(data: bytes) -> str:
    """Return the beginning of a bad line, escaped for messages."""
    return ascii(data[:_SHOWN].decode("utf-8", "replace"))
