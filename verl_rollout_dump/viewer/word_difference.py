"""In which words two texts differ."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import accumulate

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_MOST_COMPARED = 2000  # words; comparing takes quadratic time

Span = tuple[int, int]  # characters: start, end


def own_words(text: str, other: str) -> list[Span]:
    """Return the parts of a text that differ from another one, in whole words.

    Of texts that differ over thousands of words, all between their common start and end counts as different.
    """
    words, others = _WORDS.findall(text), _WORDS.findall(other)
    start = _common_start(words, others)
    end = _common_start(words[start:][::-1], others[start:][::-1])
    middle, other_middle = words[start : len(words) - end], others[start : len(others) - end]
    offsets = [0, *accumulate(map(len, words))]
    if max(len(middle), len(other_middle)) > _MOST_COMPARED:
        changed = [(0, len(middle))]
    else:
        codes = SequenceMatcher(None, middle, other_middle, autojunk=False).get_opcodes()
        changed = [(first, last) for kind, first, last, _, _ in codes if kind != "equal"]
    return [(offsets[start + first], offsets[start + last]) for first, last in changed if last > first]


def _common_start(words: list[str], others: list[str]) -> int:
    """Return how many words two lists begin with in common."""
    pairs = enumerate(zip(words, others, strict=False))
    return next((number for number, (one, other) in pairs if one != other), min(len(words), len(others)))
