"""Text and raw bytes as the body of a JSON string: the form that all decoders share.

Escapes are orjson's. U+0085, U+2028 and U+2029 are escaped too, although JSON does not require it: readers that split
a file with `str.splitlines()` would otherwise split inside a record.
"""

from __future__ import annotations

import re

import orjson

# The text of a row. A view shares one buffer with other rows, to avoid a copy.
Row = bytes | memoryview

# The three line separators that JSON leaves alone, as UTF-8.
SEPARATORS = {b"\xc2\x85": b"\\u0085", b"\xe2\x80\xa8": b"\\u2028", b"\xe2\x80\xa9": b"\\u2029"}

# How a piece begins if it completes a separator that an earlier piece has begun.
COMPLETING = tuple(separator[cut:] for separator in SEPARATORS for cut in range(1, len(separator)))

_ESCAPES = {bytes([byte]): orjson.dumps(chr(byte))[1:-1] for byte in (*range(0x20), *b'"\\')} | SEPARATORS
_TO_ESCAPE = re.compile(rb'[\x00-\x1f"\\]|\xc2\x85|\xe2\x80[\xa8\xa9]')


def is_whole(raw: bytes) -> bool:
    """Return whether the bytes are whole characters: UTF-8 that neither begins nor ends inside a character."""
    if raw.isascii():
        return True
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def escape_bytes(raw: bytes) -> bytes:
    """Escape a piece of UTF-8, which may begin or end inside a character.

    Everything that is escaped begins with the first byte of a character. So escaped pieces, joined, are the escaped
    text, except for separators that are completed by joining.
    """
    return _TO_ESCAPE.sub(lambda found: _ESCAPES[found.group()], raw)


def escape_separators(row: bytes) -> bytes:
    """Escape the separators that consist of several pieces; everything else is escaped already."""
    for separator, escaped in SEPARATORS.items():
        row = row.replace(separator, escaped)
    return row


def json_text(text: str) -> bytes:
    r"""Return the text as the body of a JSON string; lone surrogates, which JSON forbids, as the text `\udc80`."""
    if text.isascii():
        return orjson.dumps(text)[1:-1]
    encoded = text.encode("utf-8", "backslashreplace")
    return escape_separators(orjson.dumps(encoded.decode("utf-8"))[1:-1])
