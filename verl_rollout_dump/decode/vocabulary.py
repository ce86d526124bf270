"""Reads what a tokenizer states about itself: its token strings, which of them are special, and the steps of its
decoder.

The statements are not trusted: they only propose a table, which `decoder.py` compares with `tokenizer.decode`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

# A decoder's steps, in order, as its Rust description has them.
Steps = list[dict[str, Any]]

# Beyond this many ids a table would cost more memory than it is worth.
_LARGEST_VOCABULARY = 4_000_000

# Settings of a step that matter to encoding alone.
_DECODING_IGNORES = {"ByteLevel": {"add_prefix_space", "trim_offsets", "use_regex"}}


@dataclass(frozen=True)
class Vocabulary:
    """The tokens by id (None for a gap), and the known steps of decoding."""

    tokens: list[str | None]
    added: frozenset[int]
    # Left out of the text under skip_special_tokens.
    special: frozenset[int]
    # None: the tokenizer does not describe its decoder (those in Python do not).
    steps: Steps | None


def rust_tokenizer(tokenizer: Any) -> Any | None:
    """Return the `tokenizers.Tokenizer` inside a transformers tokenizer, or the tokenizer itself; None without one."""
    tokenizers = sys.modules.get("tokenizers")
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    return backend if tokenizers is not None and isinstance(backend, tokenizers.Tokenizer) else None


def read_vocabulary(tokenizer: Any) -> Vocabulary | None:
    """Read the tokenizer's vocabulary; None if it has none."""
    backend = rust_tokenizer(tokenizer)
    if backend is not None:
        return _of_rust(backend)
    return _of_python(tokenizer) if hasattr(tokenizer, "get_vocab") else None


def _of_rust(backend: Any) -> Vocabulary:
    added = backend.get_added_tokens_decoder()
    # Decoding looks an id up among the added tokens first, and tells a special token by its text.
    by_id = {token_id: token for token, token_id in backend.get_vocab(with_added_tokens=False).items()}
    by_id.update({token_id: token.content for token_id, token in added.items()})
    special_texts = {token.content for token in added.values() if token.special}
    special = frozenset(token_id for token_id, token in by_id.items() if token in special_texts)
    return Vocabulary(_in_order(by_id), frozenset(added), special, _described_steps(backend.decoder))


def _of_python(tokenizer: Any) -> Vocabulary:
    by_id = {token_id: token for token, token_id in tokenizer.get_vocab().items()}
    special = frozenset(getattr(tokenizer, "all_special_ids", ()))
    added = frozenset(getattr(tokenizer, "added_tokens_decoder", ())) | special
    return Vocabulary(_in_order(by_id), added & by_id.keys(), special & by_id.keys(), steps=None)


def _in_order(by_id: dict[int, str]) -> list[str | None]:
    size = max(by_id, default=-1) + 1
    if size > _LARGEST_VOCABULARY:
        raise ValueError(f"ids up to {size - 1} are too many for a table")
    return [by_id.get(token_id) for token_id in range(size)]


def _described_steps(decoder: Any) -> Steps:
    """Return the steps of a Rust decoder, those of a sequence one by one."""
    if decoder is None:
        return []
    described = json.loads(decoder.__getstate__())
    steps = described["decoders"] if described["type"] == "Sequence" else [described]
    return [_without_ignored(step) for step in steps]


def _without_ignored(step: dict[str, Any]) -> dict[str, Any]:
    ignored = _DECODING_IGNORES.get(step["type"], set())
    return {key: value for key, value in step.items() if key not in ignored}
