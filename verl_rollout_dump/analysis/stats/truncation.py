"""Whether the length limit stopped a response, as far as the fields of its record show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from verl_rollout_dump.reader import Record

_TRUTH_OF_TEXT = {"true": True, "1": True, "1.0": True, "yes": True, "false": False, "0": False, "0.0": False}
_TRUTH_OF_TEXT |= {"no": False, "": False}
_CUT_REASONS = frozenset(("length", "max_tokens", "max_length"))
_SLIME_STATES = {"completed": False, "truncated": True, "aborted": False, "failed": False, "pending": False}


def _truth_of(value: Any) -> bool | None:
    """Return the truth of a value, of text (`"False"`, `"0"`) and lists of one item too; None if it has none."""
    if isinstance(value, list):
        return _truth_of(value[0]) if len(value) == 1 else None
    if isinstance(value, str):
        return _TRUTH_OF_TEXT.get(value.strip().lower())
    return bool(value) if isinstance(value, (bool, int, float)) and value == value else None  # NaN has no truth


def _is_cut_by_reason(reason: Any) -> bool | None:
    return reason in _CUT_REASONS if isinstance(reason, str) else None


def _is_cut_by_status(status: Any) -> bool | None:
    return _SLIME_STATES.get(status) if isinstance(status, str) else None


# field -> function from its value to whether the response was cut; None: unknown
_TRUNCATION: dict[str, Callable[[Any], bool | None]] = {
    "truncated": _truth_of,
    "is_truncated": _truth_of,
    "overlong": _truth_of,
    "finish_reason": _is_cut_by_reason,
    "stop_reason": _is_cut_by_reason,
    "status": _is_cut_by_status,
}


def is_truncated(record: Record) -> bool | None:
    """Return whether the response of a record was cut; None if unknown."""
    known = [cut for name in record.keys() & _TRUNCATION if (cut := _TRUNCATION[name](record[name])) is not None]
    return any(known) if known else None
