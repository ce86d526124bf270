"""The last decoder, with which the others are compared: `tokenizer.decode`, one row at a time.

An id that the tokenizer refuses (a Rust tokenizer raises on -100 and on ids beyond 32 bits) does not cost the row: the
ids around it are decoded run by run, and the refused id appears in the text as `<|id=-100|>` and is counted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from verl_rollout_dump.decode.json_text import Row, json_text

logger = logging.getLogger(__name__)

_Decode = Callable[[list[int]], str]


def _decode_function(tokenizer: Any, skip_special_tokens: bool) -> _Decode:
    """Return the tokenizer's `decode` of one row, or its `batch_decode` of one row if it has no `decode`."""
    if hasattr(tokenizer, "decode"):
        return partial(tokenizer.decode, skip_special_tokens=skip_special_tokens)
    return lambda row: tokenizer.batch_decode([row], skip_special_tokens=skip_special_tokens)[0]


def id_lists(ids: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> list[list[int]]:
    """Return the rows without their padding, as lists of Python integers."""
    return [row[start:stop].tolist() for row, start, stop in zip(ids, starts.tolist(), stops.tolist(), strict=True)]


def raise_unless_refusal(error: BaseException) -> None:
    """Raise again what is not the tokenizer's refusal. (A panic in Rust is a BaseException of PyO3.)"""
    if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
        raise error


class EachRow:
    """Decodes with `tokenizer.decode`. Never raises, and loses nothing."""

    name = "decode"

    def __init__(self, tokenizer: Any, skip_special_tokens: bool) -> None:
        self.decode = _decode_function(tokenizer, skip_special_tokens)
        self.refused_ids = 0

    def json_rows(self, ids: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> Sequence[Row]:
        """Return each row's text as the body of a JSON string."""
        return [self.json_row(row) for row in id_lists(ids, starts, stops)]

    def json_row(self, row: list[int]) -> bytes:
        """Return one row's text as the body of a JSON string."""
        answer = self.answer(row)
        return json_text(self._run_by_run(row)) if answer is None else answer

    def answer(self, row: list[int]) -> bytes | None:
        """Return the tokenizer's text as the body of a JSON string; None if it raises."""
        try:
            return json_text(self.decode(row))
        except BaseException as error:
            raise_unless_refusal(error)
            logger.debug("the tokenizer refuses %s: %r", row, error)
            return None

    def _run_by_run(self, row: list[int]) -> str:
        accepted = {token_id: self.answer([token_id]) is not None for token_id in set(row)}
        parts = []
        for is_accepted, run in groupby(row, key=accepted.__getitem__):
            ids = list(run)
            if is_accepted and self.answer(ids) is not None:  # each alone, and all together
                parts.append(self.decode(ids))
            else:
                self.refused_ids += len(ids)
                parts += [f"<|id={token_id}|>" for token_id in ids]
        return "".join(parts)
