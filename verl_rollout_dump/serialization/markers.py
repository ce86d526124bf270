"""Markers: JSON objects with one reserved key, for what JSON has no form for.

    {"$bytes": "/wA="}                    bytes, base64                         decoded back
    {"$int": "0x1f..."}                   an integer beyond a double's range    decoded back
    {"$complex": [1.0, -2.0]}             a complex number                      decoded back
    {"$marker": {"type": "module.Name",   what could not be written: reason and what is known of it (shape,
                 "reason": "..."}}        dtype, length, the first characters), never a memory address

Only an object with exactly one key can be a marker. A user's own object of one key that looks like one
(`$bytes`, or `$$bytes`) gets one `$` more in front, and `decode_markers` takes it off again; so nothing a user
returns is ever mistaken for a marker, and objects of several keys are never touched.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from typing import Any

from verl_rollout_dump.serialization.text import repair_text
from verl_rollout_dump.serialization.values import JsonValue

_BYTES = "$bytes"
_INTEGER = "$int"
_COMPLEX = "$complex"
MARKER = "$marker"
# What stands at the back edge of a cycle.
CIRCULAR = "<circular>"

RESERVED = re.compile(r"\$+(bytes|int|complex|marker)")


def bytes_marker(data: bytes) -> JsonValue:
    """Return the marker of bytes: their base64."""
    return {_BYTES: base64.b64encode(data).decode("ascii")}


def integer_marker(number: int) -> JsonValue:
    """Return the marker of an integer that no JSON reader takes as a number: its hexadecimal digits."""
    return {_INTEGER: hex(number)}


def complex_marker(real: JsonValue, imaginary: JsonValue) -> JsonValue:
    """Return the marker of a complex number: its real and its imaginary part."""
    return {_COMPLEX: [real, imaginary]}


def marker(type_name: str, reason: str, facts: dict[str, JsonValue]) -> JsonValue:
    """Return the marker of a value that cannot be written."""
    known = {name: repair_text(fact) if isinstance(fact, str) else fact for name, fact in facts.items()}
    return {MARKER: {"type": type_name, "reason": reason, **known}}


def escape_reserved(key: str) -> str:
    """Return the key of a user's one-key object, with one `$` more where it could be taken for a marker's."""
    return f"${key}" if RESERVED.fullmatch(key) else key


def decode_markers(value: Any) -> Any:
    """Return parsed JSON with its decodable markers decoded: bytes, integers and complex numbers come back.

    `$marker` objects stay as they are, and so does what only looks like a marker (its content does not decode).
    The input is not changed.
    """
    if isinstance(value, list):
        return [decode_markers(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((key, content),) = value.items()
        if isinstance(key, str) and RESERVED.fullmatch(key):
            return _decode_reserved(key, content)
    return {key: decode_markers(item) for key, item in value.items()}


def _decode_reserved(key: str, content: Any) -> Any:
    """Return what an object of one reserved key stands for."""
    if key.startswith("$$"):
        return {key[1:]: decode_markers(content)}
    try:
        return _DECODERS[key](content)
    except (TypeError, ValueError, binascii.Error):  # not written by us: it stays as it is
        return {key: content}


def _decode_bytes(content: Any) -> bytes:
    """Return the bytes of a `$bytes` marker."""
    return base64.b64decode(content, validate=True)


def _decode_integer(content: Any) -> int:
    """Return the integer of an `$int` marker."""
    return int(content, 16)


def _decode_complex(content: Any) -> complex:
    """Return the number of a `$complex` marker; a null part was NaN or an infinity."""
    real, imaginary = (math.nan if part is None else float(part) for part in content)
    return complex(real, imaginary)


def _decode_nothing(content: Any) -> Any:
    """Return a `$marker` object as it is: its value was never written."""
    return {MARKER: content}


_DECODERS: dict[str, Callable[[Any], Any]] = {
    _BYTES: _decode_bytes,
    _INTEGER: _decode_integer,
    _COMPLEX: _decode_complex,
    MARKER: _decode_nothing,
}
