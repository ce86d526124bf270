"""The rules once more, slowly and by hand: one value after the other, no types looked up by name, no caches.

Written apart from the package, so that a mistake has to be made twice to go unseen. Covers what the property tests
generate.
"""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import math
import pathlib
import re
import uuid
from typing import Any

import numpy as np
import torch

LARGEST = int(1.7976931348623157e308)


def early(value: Any) -> Any:
    """Return what early_convert writes of a value, as `json.loads` reads it back."""
    if isinstance(value, enum.Enum):
        return early(value.value)
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if isinstance(value, int | np.integer):
        number = int(value)
        return number if abs(number) <= LARGEST else {"$int": hex(number)}
    if isinstance(value, np.float16 | np.float32):
        return float(str(value)) if np.isfinite(value) else None
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, complex | np.complexfloating):
        part = np.float32 if isinstance(value, np.complex64) else np.float64
        return {"$complex": [early(part(value.real)), early(part(value.imag))]}
    if isinstance(value, str):
        return repaired(str(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": base64.standard_b64encode(bytes(value)).decode()}
    if isinstance(value, np.ndarray | torch.Tensor):
        return early_array(value)
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value)
    return early_object(value)


def early_array(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.dtype is torch.float32:
            return early_array(np.array(value.detach().tolist(), dtype=np.float32).reshape(tuple(value.shape)))
        return early(value.detach().tolist())
    if value.ndim == 0:
        return early(value[()])
    return [early_array(row) if isinstance(row, np.ndarray) and value.ndim > 1 else early(row) for row in value]


def early_object(value: Any) -> Any:
    if isinstance(value, dict):
        return early_dict(value.items())
    if isinstance(value, list | tuple | collections.deque | range):
        return [early(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((early(item) for item in value), key=rank)
    if dataclasses.is_dataclass(value):
        return early_dict([(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)])
    if isinstance(value, datetime.timedelta):
        return duration(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | fractions.Fraction | uuid.UUID | pathlib.PurePath):
        return str(value)
    if isinstance(value, Exception):
        return {"type": type(value).__name__, "message": repaired(str(value))}
    kind = type(value)
    return {"$marker": {"type": f"{kind.__module__}.{kind.__qualname__}", "reason": "no rule for this type"}}


def duration(value: datetime.timedelta) -> str:
    sign, value = ("-", -value) if value < datetime.timedelta(0) else ("", value)
    hours, seconds = divmod(value.seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    shown = f"{seconds}.{value.microseconds:06d}".rstrip("0").rstrip(".")
    days = f"{value.days}D" if value.days else ""
    clock = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "") + (f"{shown}S" if shown != "0" else "")
    return f"{sign}P{days}{'T' if clock else ''}{clock}" if days or clock else "PT0S"


def rank(value: Any) -> Any:
    if value is None:
        return (0, 0, "null")
    if isinstance(value, bool):
        return (1, value, "")
    if isinstance(value, int | float) and -(2**63) <= value < 2**64:
        return (2, value, json.dumps(value))
    if isinstance(value, float):
        return (2, value, json.dumps(value))
    if isinstance(value, str):
        return (3, value, "")
    return (4, 0, json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def early_dict(pairs: Any) -> Any:
    out: dict[str, Any] = {}
    for key, value in pairs:
        text = key_text(key)
        name, number = text, 1
        while name in out:
            number += 1
            name = f"{text}__{number}"
        out[name] = early(value)
    return escaped(out)


def escaped(out: dict[str, Any]) -> dict[str, Any]:
    if len(out) == 1 and re.fullmatch(r"\$+(bytes|int|complex|marker)", next(iter(out))):
        return {f"${key}": value for key, value in out.items()}
    return out


def key_text(key: Any) -> str:
    if isinstance(key, enum.Enum):
        return key_text(key.value)
    if isinstance(key, str):
        return repaired(str(key))
    if isinstance(key, tuple):
        return f"({', '.join(map(element_text, key))}{',' if len(key) == 1 else ''})"
    if isinstance(key, float | np.floating) and not math.isfinite(key):
        return "NaN" if math.isnan(key) else "Infinity" if key > 0 else "-Infinity"
    value = early(key)
    return value if isinstance(value, str) else json_text(value)


def element_text(element: Any) -> str:
    if isinstance(element, tuple):
        return key_text(element)
    value = early(element)
    return json_text(value) if isinstance(value, dict | list) or is_wide(value) else repr(value)


def is_wide(value: Any) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**64


def json_text(value: Any) -> str:
    import orjson

    return str(value) if is_wide(value) else orjson.dumps(value).decode()


def repaired(text: str) -> str:
    """Return text without surrogates, character by character."""
    out, place = [], 0
    while place < len(text):
        high, low = ord(text[place]), ord(text[place + 1]) if place + 1 < len(text) else 0
        if 0xD800 <= high < 0xDC00 <= low < 0xE000:
            out.append(chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)))
            place += 2
        else:
            out.append("\ufffd" if 0xD800 <= high < 0xE000 else text[place])
            place += 1
    return "".join(out)


def fallback(value: Any) -> Any:
    """Return what str_fallback writes of a value, as `json.loads` reads it back."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return early(int(value))
    if isinstance(value, float):
        return early(float(value))
    if isinstance(value, str):
        return repaired(str.__str__(value))
    if isinstance(value, list | tuple):
        return [fallback(item) for item in value]
    if isinstance(value, dict):
        return fallback_dict(value)
    return repaired(fallback_text(value))


def fallback_dict(value: dict[Any, Any]) -> Any:
    out: dict[str, Any] = {}
    for key, item in value.items():
        native = isinstance(key, str | int | float | type(None))
        text = key_text(key) if native else repaired(fallback_text(key))
        name, number = text, 1
        while name in out:
            number += 1
            name = f"{text}__{number}"
        out[name] = fallback(item)
    return escaped(out)


def fallback_text(value: Any) -> str:
    if isinstance(value, set | frozenset):
        inside = ", ".join(sorted(repr(item) for item in value))
        if isinstance(value, set) and inside:
            return "{" + inside + "}"
        return f"{type(value).__name__}({'{' + inside + '}' if inside else ''})"
    if isinstance(value, torch.Tensor):
        numbers = value.detach().tolist()
        return f"tensor({early_numbers(numbers) if value.dtype is torch.float32 else numbers})"
    return re.sub(r" at 0x[0-9a-fA-F]+", "", str(value))


def early_numbers(numbers: Any) -> Any:
    if isinstance(numbers, list):
        return [early_numbers(number) for number in numbers]
    return float(str(np.float32(numbers)))
