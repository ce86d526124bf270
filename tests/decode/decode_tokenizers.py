"""Every kind of tokenizer that decoding is tested on, by name."""

from functools import cache

from python_tokenizers import Characters, CharactersWithVocabulary, OnlyBatches, SlowByteLevel
from real_vocabularies import deepseek, mistral, qwen, smollm2
from tokenizers import decoders
from trained_tokenizers import (
    STRIP,
    byte_fallback,
    byte_fallback_decoder,
    byte_level,
    rust_byte_level,
    unigram,
    word_level,
    wordpiece,
)

# name -> (how it is made, the way it must take)
KINDS = {
    "smollm2": (smollm2, "table"),
    "deepseek": (deepseek, "table"),
    "qwen": (qwen, "table"),
    "mistral": (mistral, "table"),
    "byte-level": (byte_level, "table"),
    "byte-level in Rust alone": (rust_byte_level, "table"),
    "byte-level in Python": (SlowByteLevel, "table"),
    "byte-level, clean-up ignored": (lambda: byte_level(clean_up_tokenization_spaces=True), "table"),
    "byte-level, cleaned up": (
        lambda: byte_level(
            clean_up_tokenization_spaces=True,
            clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output=True,
        ),
        "table",
    ),
    "byte-level and more": (
        lambda: byte_level(decoders.Sequence([decoders.ByteLevel(), decoders.Replace("th", "TH")])),
        "decode_batch",
    ),
    "byte-fallback, stripped": (lambda: byte_fallback(byte_fallback_decoder(STRIP)), "table"),
    "byte-fallback": (lambda: byte_fallback(byte_fallback_decoder()), "table"),
    "byte-fallback, else stripped": (
        lambda: byte_fallback(byte_fallback_decoder(decoders.Strip(content=" ", left=2))),
        "decode_batch",
    ),
    "wordpiece": (wordpiece, "decode_batch"),
    "wordpiece, cleaned up": (lambda: wordpiece(clean_up_tokenization_spaces=True), "decode_batch"),
    "unigram": (unigram, "decode_batch"),
    "word-level": (word_level, "decode_batch"),
    "characters": (Characters, "decode"),
    "characters with a vocabulary": (CharactersWithVocabulary, "table"),
    "only batches": (OnlyBatches, "decode"),
}


@cache
def tokenizer_of(kind):
    return KINDS[kind][0]()


def vocabulary_size(tokenizer):
    """How many ids there are to draw from."""
    if hasattr(tokenizer, "get_vocab"):
        return max(tokenizer.get_vocab().values()) + 1
    return Characters.size


def decoded(tokenizer, ids, skip_special_tokens):
    """What the tokenizer itself says."""
    if not hasattr(tokenizer, "decode"):
        return tokenizer.batch_decode([ids], skip_special_tokens=skip_special_tokens)[0]
    return tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)
