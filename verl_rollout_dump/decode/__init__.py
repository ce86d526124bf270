"""Turns token ids into JSON text, fast, and always exactly as `tokenizer.decode` does.

The idea. In a byte-level or byte-fallback vocabulary every id stands for a fixed string of bytes, so decoding is
joining. JSON escapes only ASCII bytes, and no ASCII byte occurs inside a UTF-8 sequence; so each piece can be
escaped in advance, and the joined pieces are the escaped text even if a token ends in the middle of a character.
Joining millions of pieces is one loop in C (`native/join.c`), or a handful of numpy calls (`pieces_numpy.py`).

Rows with an id that the table does not know go through the tokenizer itself, and rows that are cut inside a character
are repaired as the tokenizer repairs them. A tokenizer's name never decides whether the table is used: both are
compared on every id and on adversarial samples. Tokenizers that differ use the Rust `decode_batch` on a private copy,
or `decode` row by row.
"""

from verl_rollout_dump.decode.decoder import TextDecoder, text_decoder
from verl_rollout_dump.decode.json_text import Row

__all__ = ["Row", "TextDecoder", "text_decoder"]
