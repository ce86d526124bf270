"""Chooses a decoder by comparison: the first one that agrees with `tokenizer.decode` on every sample."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from verl_rollout_dump.decode.batch import Batch, TextChange
from verl_rollout_dump.decode.each_row import EachRow, raise_unless_refusal
from verl_rollout_dump.decode.json_text import Row
from verl_rollout_dump.decode.rules import on_bytes, rules_for
from verl_rollout_dump.decode.samples import Sample, samples
from verl_rollout_dump.decode.table import Table, raw_pieces
from verl_rollout_dump.decode.vocabulary import read_vocabulary, rust_tokenizer


class _Decoder(Protocol):
    """Decodes rows of token ids."""

    name: str

    def json_rows(self, ids: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> Sequence[Row]:
        """Return the text of `ids[i, starts[i]:stops[i]]` as the body of a JSON string, for every row i."""


# What is compared: its description, what makes the decoder (making one is expensive), and the samples.
_Candidate = tuple[str, Callable[[], _Decoder], Iterable[list[Sample]]]


class TextDecoder:
    """Decodes rows of token ids. The first call chooses the decoder, which takes about 0.5 s."""

    def __init__(self, tokenizer: Any, skip_special_tokens: bool) -> None:
        self._tokenizer, self._skip_special_tokens = tokenizer, skip_special_tokens
        self._each_row = EachRow(tokenizer, skip_special_tokens)
        self._chosen: _Decoder | None = None
        self._why = ""
        self._lock = threading.Lock()

    def json_rows(self, ids: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> Sequence[Row]:
        """Return each row's text as the body of a JSON string, without the quotes.

        Row i is `ids[i, starts[i]:stops[i]]`; `orjson.loads(b'"' + row + b'"')` equals the tokenizer's `decode` of
        it. Ids that the tokenizer refuses stand in the text as `<|id=N|>` and are counted in `refused_ids`.
        """
        with self._lock:
            return self._prepared().json_rows(ids, starts, stops)

    def prepare(self) -> None:
        """Choose the decoder now rather than at the first row."""
        with self._lock:
            self._prepared()

    @property
    def method(self) -> str:
        """The chosen decoder: `table`, `decode_batch` or `decode`."""
        with self._lock:
            return self._prepared().name

    @property
    def why(self) -> str:
        """The reason for the choice, in one sentence."""
        self.prepare()
        return self._why

    @property
    def refused_ids(self) -> int:
        """The number of ids that the tokenizer has refused."""
        return self._each_row.refused_ids

    def _prepared(self) -> _Decoder:
        if self._chosen is None:
            self._chosen, self._why = _choose(self._tokenizer, self._skip_special_tokens, self._each_row)
        return self._chosen


def text_decoder(tokenizer: Any, skip_special_tokens: bool = True) -> TextDecoder:
    """Return a decoder for the tokenizer: any object with `decode(ids, skip_special_tokens=...)` or `batch_decode`."""
    return TextDecoder(tokenizer, skip_special_tokens)


def _choose(tokenizer: Any, skip_special_tokens: bool, each_row: EachRow) -> tuple[_Decoder, str]:
    """Return the first decoder that agrees with the tokenizer, and the reason for the choice."""
    reasons: list[str] = []
    try:
        for name, make, groups in _candidates(tokenizer, skip_special_tokens, each_row):
            way = make()
            difference = _first_difference(way, each_row, groups)
            if difference is None:
                return way, "; ".join([*reasons, f"{name} agrees with tokenizer.decode"])
            reasons.append(f"{name} disagrees with tokenizer.decode: {difference}")
    except BaseException as error:  # a tokenizer of another make may raise anything: it is decoded row by row
        raise_unless_refusal(error)
        reasons.append(f"the tokenizer could not be compared: {error!r}")
    return each_row, "; ".join([*reasons, "no faster decoder is known for this tokenizer"])


def _candidates(tokenizer: Any, skip_special_tokens: bool, each_row: EachRow) -> Iterator[_Candidate]:
    """Yield the decoders that are worth comparing, the fastest first."""
    vocabulary = read_vocabulary(tokenizer)
    if vocabulary is None:
        return
    clean_ups = _clean_ups(tokenizer)
    for rule in rules_for(vocabulary.steps):
        pieces = raw_pieces(vocabulary, rule, skip_special_tokens)
        for suffix, clean_up in clean_ups.items():
            finishes = [finish for finish in (rule.finish, clean_up and on_bytes(clean_up)) if finish]
            table = partial(Table, pieces, rule.repair, finishes, each_row)
            yield f"a {rule.name} table{suffix}", table, samples(vocabulary, pieces)
    backend = rust_tokenizer(tokenizer)
    if backend is not None:
        pieces = [None if token is None else token.replace("▁", " ").encode() for token in vocabulary.tokens]
        for suffix, clean_up in clean_ups.items():
            batch = partial(Batch, backend, skip_special_tokens, clean_up, each_row)
            yield f"decode_batch{suffix}", batch, samples(vocabulary, pieces)


def _clean_ups(tokenizer: Any) -> dict[str, TextChange | None]:
    """Return what transformers may do to the text after decoding: nothing, or its own clean-up."""
    if getattr(tokenizer, "clean_up_tokenization_spaces", False):
        return {"": None, " with clean-up": tokenizer.clean_up_tokenization}
    return {"": None}


def _first_difference(way: _Decoder, each_row: EachRow, groups: Iterable[list[Sample]]) -> str | None:
    """Describe the first sample on which a decoder differs from `tokenizer.decode`; None if none differs."""
    for group in groups:
        answers = {tuple(sample): each_row.answer(sample) for sample in group}
        expected = {sample: answer for sample, answer in answers.items() if answer is not None}
        flat = np.array([token_id for sample in expected for token_id in sample], np.int64)
        lengths = np.array([len(sample) for sample in expected], np.int64)
        stops = lengths.cumsum()
        rows = way.json_rows(np.broadcast_to(flat, (lengths.size, flat.size)), stops - lengths, stops)
        for row, (sample, answer) in zip(rows, expected.items(), strict=True):
            if row != answer:
                return f"ids {list(sample[:16])} give {row[:80]!r}, not {answer[:80]!r}"
    return None
