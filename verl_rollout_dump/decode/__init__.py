"""Token ids -> JSON text, fast, and always exactly what `tokenizer.decode` says.

The idea. In a byte-level or byte-fallback vocabulary every id stands for a fixed string of bytes, so decoding is
joining. JSON escapes only ASCII bytes, and no ASCII byte occurs inside a UTF-8 sequence; so each piece can be
escaped beforehand, and the joined pieces are the escaped text even where a token ends in the middle of a character.
Joining millions of pieces is one loop in C (`native/join.c`), or a handful of numpy calls (`pieces_numpy.py`).

What a table cannot know alone it asks: rows with an id it does not vouch for go through the tokenizer itself, rows
cut inside a character are repaired as the tokenizer mends them. Whether a tokenizer may take the table is decided by
comparing both on every id and on adversarial samples, never by its name; those that may not take the Rust
`decode_batch` on a copy of their own, or `decode` row by row.
"""

from verl_rollout_dump.decode.decoder import TextDecoder, text_decoder
from verl_rollout_dump.decode.json_text import Row

__all__ = ["Row", "TextDecoder", "text_decoder"]
