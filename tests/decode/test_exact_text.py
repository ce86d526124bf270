"""Whatever the tokenizer, whatever the ids: the text is what `tokenizer.decode` says, byte for byte."""

import numpy as np
import orjson
import pytest
from decode_tokenizers import KINDS, decoded, tokenizer_of, vocabulary_size
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trained_tokenizers import HARD_TEXT

from verl_rollout_dump import native
from verl_rollout_dump.decode import pieces_numpy, text_decoder

DECODERS = {}


def decoder_of(kind, skip_special_tokens):
    key = kind, skip_special_tokens
    if key not in DECODERS:
        DECODERS[key] = text_decoder(tokenizer_of(kind), skip_special_tokens)
    return DECODERS[key]


def padded(rows, padding_id=0, dtype=np.int64):
    """Rows of ids on the right or left of their padding, in turn, as (rows, length) with starts and stops."""
    length = max(map(len, rows), default=0) + 2
    ids = np.full((len(rows), length), padding_id, dtype)
    starts = np.array([(number % 2) * (length - len(row)) for number, row in enumerate(rows)], np.int64)
    stops = starts + [len(row) for row in rows]
    for number, row in enumerate(rows):
        ids[number, starts[number] : stops[number]] = row
    return ids, starts, stops


def assert_exact(kind, skip_special_tokens, rows, dtype=np.int64):
    decoder = decoder_of(kind, skip_special_tokens)
    texts = decoder.json_rows(*padded(rows, dtype=dtype))
    assert len(texts) == len(rows)
    for row, text in zip(rows, texts, strict=True):
        line = b'"' + text + b'"'
        assert orjson.loads(line) == decoded(tokenizer_of(kind), row, skip_special_tokens)
        assert len(line.decode("utf-8").splitlines()) == 1


def ids_of_bytes(kind):
    """The ids that spell one byte, found by decoding: with them any text can be cut anywhere."""
    tokenizer = tokenizer_of(kind)
    spelling = {}
    for token_id in range(min(vocabulary_size(tokenizer), 1500)):
        text = decoded(tokenizer, [token_id], False)
        if len(text) == 1:
            spelling.setdefault(text, []).append(token_id)
    return [token_id for ids in spelling.values() for token_id in ids[:130]]


def rows_of_ids(kind):
    """Ids from anywhere in the vocabulary, from its two ends, where special and added tokens are, and bytes."""
    size = vocabulary_size(tokenizer_of(kind))
    anywhere = st.integers(0, size - 1)
    ends = st.one_of(st.integers(0, min(300, size - 1)), st.integers(max(0, size - 20), size - 1))
    ids = st.one_of(anywhere, ends, st.sampled_from(ids_of_bytes(kind) or [0]))
    return st.lists(st.lists(ids, max_size=24), min_size=1, max_size=8)


exactly = pytest.mark.parametrize("skip_special_tokens", [True, False])
every_kind = pytest.mark.parametrize("kind", KINDS)


@exactly
@every_kind
def test_any_ids(kind, skip_special_tokens):
    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
    @given(rows_of_ids(kind), st.sampled_from([np.int64, np.int32, np.uint32, np.uint64]))
    def every_row_is_exact(rows, dtype):
        assert_exact(kind, skip_special_tokens, rows, dtype)

    every_row_is_exact()


@exactly
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("qwen", "mistral")])
def test_any_text_cut_anywhere(kind, skip_special_tokens):
    tokenizer = tokenizer_of(kind)
    if not hasattr(tokenizer, "encode"):
        pytest.skip("cannot encode")

    @settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.one_of(st.text(max_size=40), st.sampled_from(HARD_TEXT.split(" "))), min_size=1, max_size=6))
    def every_part_is_exact(texts):
        encoding = tokenizer.encode(" ".join(texts))
        ids = getattr(encoding, "ids", encoding)
        assert_exact(
            kind, skip_special_tokens, [ids[start:stop] for start in range(5) for stop in (None, -1, -2, start + 3)]
        )

    every_part_is_exact()


def random_rows(kind):
    random = np.random.default_rng(1)
    size = vocabulary_size(tokenizer_of(kind))
    rows = [random.integers(0, size, random.integers(0, 900)).tolist() for _ in range(40)]
    return [*rows, [], [0] * 5000, []]


@exactly
@every_kind
def test_realistic_rows(kind, skip_special_tokens):
    assert_exact(kind, skip_special_tokens, random_rows(kind))


@every_kind
def test_realistic_rows_in_many_blocks_without_c(kind, monkeypatch):
    monkeypatch.setattr(native, "library", None)
    monkeypatch.setattr(pieces_numpy, "BLOCK", 1000)
    monkeypatch.setitem(DECODERS, (kind, True), text_decoder(tokenizer_of(kind)))
    assert_exact(kind, True, random_rows(kind))


@every_kind
def test_takes_its_way(kind):
    tokenizer_of(kind)  # skips what is not installed
    decoder = decoder_of(kind, True)
    assert decoder.method == KINDS[kind][1], decoder.why
    assert decoder.refused_ids == 0
    assert ("agrees with tokenizer.decode" in decoder.why) == (decoder.method != "decode")


def test_no_rows():
    empty = np.zeros(0, np.int64)
    for kind in ("byte-level", "wordpiece", "characters"):
        assert decoder_of(kind, True).json_rows(np.zeros((0, 4), np.int64), empty, empty) == []


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_separators_put_together_from_single_bytes(separator):
    """In a vocabulary without the character, every byte is a token, and no piece alone shows what they make."""
    for kind in ("smollm2", "byte-fallback"):
        tokenizer = tokenizer_of(kind)
        ids = tokenizer.encode("a" + separator + "b", add_special_tokens=False)
        text = bytes(decoder_of(kind, True).json_rows(*padded([ids]))[0])
        assert orjson.dumps(separator)[1:-1] not in text
        assert rf"\u{ord(separator):04x}".encode() in text
