"""Text for people: escaped, shortened, or drawn. No text of a model can control the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import orjson

_JSON_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
LONGEST_SHOWN = 2000  # characters of a text
BARS = "▁▂▃▄▅▆▇█"
# Control characters except line feed and tab, and characters that are invisible or change the text direction.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)


def printable(text: str, longest: int | None = LONGEST_SHOWN) -> str:
    """Return a text that is safe to print: control characters become escapes, a long text loses its middle."""
    return _escaped(text if longest is None or len(text) <= longest else _without_middle(text, longest))


def _escaped(text: str) -> str:
    """Return a text with escapes for control characters, as valid UTF-8."""
    shown = _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
    return shown.encode("utf-8", "replace").decode("utf-8")


def _without_middle(text: str, longest: int) -> str:
    """Return the beginning and the end of a text, together `longest` characters, and how many are left out."""
    tail = longest // 2
    return f"{text[: longest - tail]}… ({len(text) - longest} of {len(text)} characters) …{text[len(text) - tail :]}"


def one_line(text: str, longest: int) -> str:
    """Return the beginning of a text on one line, at most `longest` characters."""
    shown = _on_one_line(text[: longest + 1])
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def head_and_tail(text: str, longest: int) -> str:
    """Return the beginning and the end of a text on one line, at most `longest` characters.

    An answer stands at the end of a response, and a question at the end of a prompt.
    """
    if len(text) <= longest and len(shown := _on_one_line(text)) <= longest:
        return shown
    tail = (longest - 1) // 2
    head = longest - 1 - tail
    end = _on_one_line(text[max(0, len(text) - tail) :])
    return f"{_on_one_line(text[:head])[:head]}…{end[len(end) - tail :]}"


def _on_one_line(text: str) -> str:
    """Return a text that is safe to print, with signs for line feeds."""
    return _escaped(text).replace("\n", "⏎").replace("\t", " ")


def json_text(value: Any) -> str:
    """Return a value as one line of strict JSON. NaN becomes null; a type that JSON lacks becomes its `str`."""
    try:
        return orjson.dumps(value, default=str, option=_JSON_OPTIONS).decode()
    except TypeError:  # an integer beyond 64 bits
        return json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))


def sparkline(values: Sequence[float | None], width: int = 40) -> str:
    """Return a curve of block characters; None is a space. More values than `width` are averaged."""
    shown = _averaged(values, width)
    known = [value for value in shown if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if value is None else BARS[round((value - low) * scale)] for value in shown)


def _averaged(values: Sequence[float | None], width: int) -> list[float | None]:
    """Return at most `width` values, each the mean of neighbouring values."""
    if len(values) <= width:
        return list(values)
    bounds = [round(place * len(values) / width) for place in range(width + 1)]
    parts = [[v for v in values[a:b] if v is not None] for a, b in pairwise(bounds)]
    return [sum(part) / len(part) if part else None for part in parts]


def figure(value: float | None, digits: int = 4) -> str:
    """Return a number for a table; "" for None."""
    return "" if value is None else f"{value:.{digits}f}"


def percent(share: float | None) -> str:
    """Return a share (0 to 1) as a percentage; "" for None. Only 0 gives "0 %", only 1 "100 %"."""
    if share is None:
        return ""
    value = share * 100
    if 0 < value < 0.1:
        return "<0.1 %"
    if 99.9 < value < 100:
        return ">99.9 %"
    digits = 0 if 10 <= value <= 90 or round(value, 1) == round(value) else 1
    return f"{value:.{digits}f} %"


def readable_size(size: float) -> str:
    """Return a size in bytes with a unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
