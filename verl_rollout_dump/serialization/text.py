"""Text that is valid UTF-8, and records that stay on one line.

JSON has two gaps that affect rollouts. A Python string may hold half a surrogate pair, which is not UTF-8
(UKGovernmentBEIS/inspect_ai#2316). And U+0085, U+2028 and U+2029 are legal in a JSON string, while `str.splitlines()`
and other readers split the line there (volcengine/OpenViking#3984). All functions check for ASCII first: most text is
ASCII, and the check costs next to nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection

import orjson

from verl_rollout_dump.serialization.values import JsonValue

# The other separators of str.splitlines() are control characters, which JSON itself wants escaped.
_LINE_SEPARATORS = {
    "\u0085".encode(): b"\\u0085",
    "\u2028".encode(): b"\\u2028",
    "\u2029".encode(): b"\\u2029",
}
# Records that are encoded in one call: few enough for their text to stay small beside the batch.
TOGETHER = 128
_LINE_FEED = orjson.Fragment(b"\n")
# What the default __repr__ shows of where an object lives; it differs from run to run.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def repair_text(text: str) -> str:
    """Return `text` as valid Unicode: U+FFFD for a lone surrogate, the real character for a pair in two halves.

    Returns the same object if nothing is wrong.
    """
    if text.isascii() or _is_encodable(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _is_encodable(text: str) -> bool:
    """Return whether `text` can be written as UTF-8, that is, has no surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def are_encodable(texts: Collection[str]) -> bool:
    """Return whether all `texts` (exact `str`) can be written as UTF-8; the usual case is one pass in C."""
    return all(map(str.isascii, texts)) or _is_encodable("".join(texts))


def without_addresses(text: str) -> str:
    """Return `text` without memory addresses, so that equal runs write equal bytes."""
    return _ADDRESS.sub("", text) if " at 0x" in text else text


def non_finite_text(number: float) -> str:
    """Return the name of NaN or an infinity, as JavaScript and Python's `float()` know it."""
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


def escape_line_separators(data: bytes) -> bytes:
    r"""Return JSON text (UTF-8) in which U+0085, U+2028 and U+2029 are `\u` escapes: the same value, on one line."""
    if data.isascii() or not (b"\xc2\x85" in data or b"\xe2\x80" in data):
        return data
    for raw, escaped in _LINE_SEPARATORS.items():
        if raw in data:
            data = data.replace(raw, escaped)
    return data


def encode_record(record: dict[str, JsonValue]) -> bytes:
    """Return a record of JSON-ready values as one strict JSON object in UTF-8, without a newline.

    `len(line.decode().splitlines()) == 1` holds for every line. Raises `TypeError` for a value or a key that is
    not JSON-ready.
    """
    return escape_line_separators(orjson.dumps(record))


def encode_insides(records: list[dict[str, JsonValue]]) -> list[bytes]:
    r"""Return what `encode_record` gives for each, without its braces.

    Many records are encoded in one call and split at the line feeds between them: JSON itself has none.
    """
    insides: list[bytes] = []
    for first in range(0, len(records), TOGETHER):
        some = records[first : first + TOGETHER]
        text = orjson.dumps([item for record in some for item in (record, _LINE_FEED)])
        insides += escape_line_separators(text)[len("[{") : -len("},\n]")].split(b"},\n,{")
    return insides
