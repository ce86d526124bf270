"""Escaping pieces and joining them is escaping the joined text; mending is what Rust does."""

from itertools import pairwise, product

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trained_tokenizers import byte_level

from verl_rollout_dump.decode.json_text import escape_bytes, escape_separators, json_text
from verl_rollout_dump.decode.rules import byte_fallback, byte_level_or_asked, byte_level_or_itself, mend_as_replacement
from verl_rollout_dump.decode.samples import BYTE_CLASSES

ODD_CHARACTERS = '"\\/\b\f\n\r\t\x00\x1f\x7f\x85\u2028\u2029\u00e9\u4f60\ufeff\U0001f9d1'
texts = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(ODD_CHARACTERS)))


@settings(max_examples=500)
@given(texts)
def test_text_reads_back_and_is_one_line(text):
    line = b'"' + json_text(text) + b'"'
    assert orjson.loads(line) == text
    assert len(line.decode().splitlines()) == 1


@settings(max_examples=500)
@given(texts, st.lists(st.integers(0, 200)))
def test_pieces_cut_at_any_byte(text, places):
    raw = text.encode()
    cuts = [0, *sorted(place for place in places if place < len(raw)), len(raw)]
    joined = b"".join(escape_bytes(raw[start:stop]) for start, stop in pairwise(cuts))
    assert escape_separators(joined) == json_text(text)


@pytest.mark.parametrize("text", ["\ud800", "a\udc80b", "\ud83d\ude00"])
def test_lone_surrogates_are_told_in_letters(text):
    assert orjson.loads(b'"' + json_text(text) + b'"') == text.encode("ascii", "backslashreplace").decode()


def test_bytes_that_are_not_utf8_are_mended_as_rust_mends_them():
    """Every sequence of up to four of the byte classes that UTF-8 decoding tells apart."""
    tokenizer = byte_level().backend_tokenizer
    token_of = {byte_level_or_itself(token): token for token in tokenizer.get_vocab(with_added_tokens=False)}
    id_of = {byte: tokenizer.token_to_id(token_of[bytes([byte])]) for byte in BYTE_CLASSES}
    sequences = [sequence for length in (1, 2, 3, 4) for sequence in product(BYTE_CLASSES, repeat=length)]
    decoded = tokenizer.decode_batch([[id_of[byte] for byte in sequence] for sequence in sequences])
    for sequence, text in zip(sequences, decoded, strict=True):
        assert mend_as_replacement(bytes(sequence)).decode() == text


def test_what_the_rules_make_of_odd_tokens():
    assert byte_level_or_itself("Ġa") == byte_level_or_asked("Ġa") == b" a"
    assert (byte_level_or_itself("a b"), byte_level_or_asked("a b")) == (b"a b", None)
    assert (byte_level_or_itself("<0x41>"), byte_level_or_asked("<0x41>")) == (b"<0x41>", None)
    assert [byte_fallback(token) for token in ("<0x0a>", "<0x+A>", "<0x41", "▁▁a")] == [b"\n", None, None, b"  a"]
