"""JSON without loss: NaN and infinities stay, as Python's json writes them, though strict JSON has no form for them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import orjson


def exact_json(value: Any, default: Callable[[Any], Any] | None = None) -> bytes:
    """Return a value as JSON in UTF-8, strict unless it holds NaN or an infinity. `default` converts other types."""
    data = orjson.dumps(value, default=default)
    if b"null" in data and _has_non_finite(value):  # orjson writes null for NaN
        return json.dumps(value, default=default, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return data


def _has_non_finite(value: Any) -> bool:
    """Return whether a value is or contains NaN or an infinity."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_non_finite, value.values()))
    return isinstance(value, list) and any(map(_has_non_finite, value))
