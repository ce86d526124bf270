"""The samples on which decoders are compared: every id, and sequences that distinguish decoders that nearly agree."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np

from verl_rollout_dump.decode.json_text import is_whole
from verl_rollout_dump.decode.vocabulary import Vocabulary

Sample = list[int]

# Split characters and emoji, separators, everything that JSON escapes, spaces at the edges, and what
# clean_up_tokenization_spaces would change.
_TEXTS = (
    "a . b ? c ! d , e ' f do n't i 'm he 's we 've you 're .",
    " leading", "  two leading", "trailing ", " ", "\t tab\n\nlines\r\n",
    "é 你好 ﷽ 🧑🏽‍🚀👩‍👩‍👧 \u2028\u2029\x85\ufeff\ufffd",
    '"quotes" \\ back\\\\slash / \b\f\x00\x1f\x7f',
    "▁▁ Ġ Ċ <0x41> <s> ##piece</w>",
)  # fmt: skip

# One byte of every class that UTF-8 decoding tells apart.
BYTE_CLASSES = (0x41, 0x80, 0x85, 0x8F, 0x90, 0x9F, 0xA0, 0xA8, 0xBF, 0xC0, 0xC2, 0xDF, 0xE0, 0xE1, 0xE2, 0xED, 0xEF,
                0xF0, 0xF1, 0xF4, 0xF5, 0xFF)  # fmt: skip

# How many ids are decoded alone: the odd ones first, then a sample of all. (All of them are decoded in blocks.)
_ALONE = 4096
_BLOCK = 256


def samples(vocabulary: Vocabulary, pieces: Sequence[bytes | None]) -> Iterator[list[Sample]]:
    """Yield groups of samples, the most discriminating first. `pieces` are the proposed bytes of each id."""
    dice = random.Random(0)
    ids = [token_id for token_id, piece in enumerate(pieces) if piece is not None]
    partial = [token_id for token_id, piece in enumerate(pieces) if piece and not is_whole(piece)]
    added = sorted(vocabulary.added.intersection(ids))
    yield [[], *_spelt(pieces), *_cut_characters(pieces, partial, dice)]
    yield list(_around_added(added, ids, dice))
    yield [dice.choices(ids, k=dice.randint(1, 48)) for _ in range(256)] if ids else []
    yield [[token_id] for token_id in [*added, *partial, *ids[:: len(ids) // _ALONE + 1]][:_ALONE]]
    shuffled = np.random.default_rng(0).permutation(ids).tolist()
    yield [shuffled[start : start + _BLOCK] for start in range(0, len(shuffled), _BLOCK)]


def _spelt(pieces: Sequence[bytes | None]) -> Iterator[Sample]:
    """Spell the texts with the longest pieces and with the shortest, whole and with both ends cut off."""
    longest = {piece: token_id for token_id, piece in enumerate(pieces) if piece}
    shortest = {piece: token_id for piece, token_id in longest.items() if len(piece) == 1}
    for text in _TEXTS:
        for by_piece in (longest, shortest):
            sample = _spell(text.encode(), by_piece)
            yield from (sample, sample[1:], sample[:-1], sample[2:-2])


def _spell(raw: bytes, by_piece: dict[bytes, int]) -> Sample:
    widest = min(32, max(map(len, by_piece), default=0))
    sample, place = [], 0
    while place < len(raw):
        fitting = (raw[place : place + width] for width in range(widest, 0, -1))
        piece = next((piece for piece in fitting if piece in by_piece), None)
        if piece is not None:
            sample.append(by_piece[piece])
        place += len(piece or b"?")  # what no piece spells is left out
    return sample


def _cut_characters(pieces: Sequence[bytes | None], partial: Sample, dice: random.Random) -> Iterator[Sample]:
    """Return bytes that are not UTF-8, for which decoders differ in the number of U+FFFD."""
    of_byte = {piece[0]: token_id for token_id, piece in enumerate(pieces) if piece and len(piece) == 1}
    known = [of_byte[byte] for byte in BYTE_CLASSES if byte in of_byte]
    for ids in filter(None, (known, partial, known + partial)):
        yield from (dice.choices(ids, k=dice.randint(1, 7)) for _ in range(256))


def _around_added(added: Sample, ids: Sample, dice: random.Random) -> Iterator[Sample]:
    """Put added tokens, special and other, beside text and beside each other."""
    for token_id in dice.sample(added, min(512, len(added))):
        before, after, other = dice.choice(ids), dice.choice(ids), dice.choice(added)
        yield from ([token_id, after], [before, token_id, after], [before, token_id, other, token_id, after])
