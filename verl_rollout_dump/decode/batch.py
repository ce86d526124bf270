"""The second decoder: the Rust tokenizer's `decode_batch`, on a private copy.

The copy matters. `decode_batch` releases the GIL while it borrows the tokenizer; if the training thread meanwhile
sets truncation or padding on the same object (as `tokenizer(..., padding=True)` does), *that* thread gets
`RuntimeError: Already borrowed`. `decode`, which the other decoders use, holds the GIL and is safe.

`TOKENIZERS_PARALLELISM=false` in the environment limits it to one thread, as every use of `tokenizers`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from verl_rollout_dump.decode.each_row import EachRow, id_lists, raise_unless_refusal
from verl_rollout_dump.decode.json_text import Row, json_text

TextChange = Callable[[str], str]


class Batch:
    """Decodes by `decode_batch`, and changes the text afterwards as the tokenizer's Python side does."""

    name = "decode_batch"

    def __init__(self, backend: Any, skip_special_tokens: bool, finish: TextChange | None, fallback: EachRow) -> None:
        self._backend = copy.deepcopy(backend)
        self._skip_special_tokens = skip_special_tokens
        self._finish, self._fallback = finish, fallback

    def json_rows(self, ids: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> Sequence[Row]:
        """Return each row's text as the body of a JSON string."""
        rows = id_lists(ids, starts, stops)
        try:
            texts = self._backend.decode_batch(rows, skip_special_tokens=self._skip_special_tokens)
        except BaseException as error:  # one id beyond 32 bits is enough: then each row answers for itself
            raise_unless_refusal(error)
            return [self._fallback.json_row(row) for row in rows]
        if self._finish is not None:
            texts = map(self._finish, texts)
        return [json_text(text) for text in texts]
