"""The kinds of vocabulary whose tokens stand for bytes, as rules: token string -> bytes.

    kind                        decoder's steps                              a token is
    byte-level                  ByteLevel                                    bytes in the GPT-2 alphabet, else itself
    byte-level, fused first     ByteFallback Fuse Replace(▁) ByteLevel       bytes in the GPT-2 alphabet, else asked
    byte-fallback               Replace(▁) ByteFallback Fuse                 itself with ▁ as space; <0xNN> is a byte
    byte-fallback, stripped     ... and Strip of one leading space           the same; the row loses one leading space

(GPT-2, Llama-3, Qwen, DeepSeek, Mistral's tekken; byte-level read from GGUF; Gemma; Llama-2, Mistral 7B.) "Asked"
means that rows with this token go through the tokenizer itself. A rule is a proposal: it is used only after its table
has been compared with `tokenizer.decode`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from verl_rollout_dump.decode.vocabulary import Steps

RowChange = Callable[[bytes], bytes]


def _byte_alphabet() -> dict[int, int]:
    """Return GPT-2's alphabet: visible Latin-1 characters stand for their byte, U+0100 and up for the others."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)).difference(visible))
    foreign = dict.fromkeys(others, 0xFFFD)  # Latin-1, but not of the alphabet: made something that is neither
    return foreign | {byte: byte for byte in visible} | {0x100 + place: byte for place, byte in enumerate(others)}


_ALPHABET = _byte_alphabet()
_BYTE_TOKEN = re.compile("<0x([0-9a-fA-F]{2})>")


def byte_level_or_itself(token: str) -> bytes:
    """Spelt in the alphabet: its bytes. Else (an added token with a space in it) the text as it stands."""
    try:
        return token.translate(_ALPHABET).encode("latin-1")
    except UnicodeEncodeError:
        return token.encode()


def byte_level_or_asked(token: str) -> bytes | None:
    """As above, but a decoder that fuses first leaves the whole row unchanged if it has one foreign character."""
    try:
        return None if token.startswith("<0x") else token.translate(_ALPHABET).encode("latin-1")
    except UnicodeEncodeError:
        return None


def byte_fallback(token: str) -> bytes | None:
    """`<0xNN>` is the byte NN, anything else its text, with U+2581 as space."""
    found = _BYTE_TOKEN.fullmatch(token)
    if found:
        return bytes.fromhex(found.group(1))
    return None if token.startswith("<0x") else token.replace("▁", " ").encode()


def mend_as_replacement(row: bytes) -> bytes:
    """Replace what is not UTF-8 as Rust's `from_utf8_lossy` does: one U+FFFD for each maximal beginning."""
    return row.decode("utf-8", "replace").encode()


def _without_leading_space(row: bytes) -> bytes:
    """Strip one leading space."""
    return row[1:] if row.startswith(b" ") else row


def on_bytes(change: Callable[[str], str]) -> RowChange:
    """Turn a change of text into a change of bytes."""
    return lambda row: change(row.decode()).encode()


@dataclass(frozen=True)
class Rule:
    """One kind of vocabulary."""

    name: str
    steps: Steps
    # None: rows with this token are asked of the tokenizer.
    piece: Callable[[str], bytes | None]
    # What is done to a row that is not UTF-8; None: it is asked of the tokenizer.
    repair: RowChange | None
    # What is done to every row at the end.
    finish: RowChange | None = None


_SPACES = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
_BYTE_LEVEL, _BYTE_FALLBACK, _FUSE = ({"type": name} for name in ("ByteLevel", "ByteFallback", "Fuse"))
_STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}

_RULES = (
    Rule("byte-level", [_BYTE_LEVEL], byte_level_or_itself, mend_as_replacement),
    Rule("byte-level, fused", [_BYTE_FALLBACK, _FUSE, _SPACES, _BYTE_LEVEL], byte_level_or_asked, mend_as_replacement),
    Rule("byte-fallback", [_SPACES, _BYTE_FALLBACK, _FUSE], byte_fallback, None),
    Rule(
        "byte-fallback, stripped", [_SPACES, _BYTE_FALLBACK, _FUSE, _STRIP], byte_fallback, None, _without_leading_space
    ),
)


def rules_for(steps: Steps | None) -> list[Rule]:
    """Return the rules to try: the one that fits the decoder's steps, or all of them if the steps are unknown."""
    return [rule for rule in _RULES if steps is None or rule.steps == steps]
