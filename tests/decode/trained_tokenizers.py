"""Tokenizers of every kind, trained on the spot, with added tokens that are hard to decode."""

import json
from functools import cache
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

HARD_TEXT = (
    "Don't stop . We 've , they 're ! naïve café – “quoted” 你好,世界。 🧑🏽‍🚀👩‍👩‍👧 ∀x∈ℝ \\frac{1}{2} \"json\" \\\\ "
    "\tdef f(x):\n\n        return  x  # ok\r\n \u2028 \u2029 \x85 \x00\x1f\x7f ﷽ \ufeff\ufffd ▁▁ Ġ <0x41> <s>"
)
ADDED = [
    " lead",
    "trail ",
    "hello world",
    "naïve",
    "Ġodd",
    "é",
    "tab\tin",
    "\u2028",
    "<think>",
    "</tool_call>",
    "▁▁",
    '"q"',
]
SPECIAL = ["<|end|>", "<|im start|>", "<｜fim▁hole｜>", "<pad>"]


def corpus():
    """Prose and code of this Python, and the hard text among it."""
    for name in ("textwrap", "json/encoder", "argparse", "shlex", "string"):
        yield (Path(json.__file__).parents[1] / f"{name}.py").read_text(encoding="utf-8")
        yield HARD_TEXT


def with_added(tokenizer):
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in ADDED])
    return tokenizer


def trained(model, trainer, pre_tokenizer, decoder=None, normalizer=None):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(corpus(), trainer)
    if decoder is not None:
        tokenizer.decoder = decoder
    return with_added(tokenizer)


def rust_byte_level(decoder=None):
    trainer = trainers.BpeTrainer(
        vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    return trained(
        models.BPE(), trainer, pre_tokenizers.ByteLevel(add_prefix_space=False), decoder or decoders.ByteLevel()
    )


def byte_level(decoder=None, **settings):
    return PreTrainedTokenizerFast(tokenizer_object=rust_byte_level(decoder), pad_token="<pad>", **settings)


def byte_fallback_decoder(*more):
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *more])


STRIP = decoders.Strip(content=" ", left=1)


@cache
def spaces_model():
    """A BPE over text with U+2581 for spaces: its pre-tokenizer, its tokens and merges."""
    spaces = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    learnt = trained(models.BPE(), trainers.BpeTrainer(vocab_size=600, show_progress=False), spaces)
    model = json.loads(learnt.to_str())["model"]
    return spaces, list(model["vocab"]), [tuple(merge) for merge in model["merges"]]


def byte_fallback(decoder):
    """As Llama-2's: what the vocabulary lacks is spelt in bytes."""
    spaces, learnt, merges = spaces_model()
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *learnt]
    vocabulary = {token: token_id for token_id, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer, tokenizer.decoder = spaces, decoder
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return PreTrainedTokenizerFast(tokenizer_object=with_added(tokenizer), pad_token="<pad>")


def wordpiece(**settings):
    trainer = trainers.WordPieceTrainer(vocab_size=800, show_progress=False, special_tokens=["[UNK]"])
    tokenizer = trained(
        models.WordPiece(unk_token="[UNK]"),
        trainer,
        pre_tokenizers.BertPreTokenizer(),
        decoders.WordPiece(cleanup=False),
        normalizers.BertNormalizer(lowercase=True),
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", **settings)


def unigram():
    trainer = trainers.UnigramTrainer(vocab_size=700, show_progress=False, unk_token="<unk>", special_tokens=["<unk>"])
    tokenizer = trained(models.Unigram(), trainer, pre_tokenizers.Metaspace(), decoders.Metaspace())
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>")


def word_level():
    """Without a decoder at all: Rust puts spaces between the tokens."""
    trainer = trainers.WordLevelTrainer(vocab_size=500, show_progress=False, special_tokens=["[UNK]"])
    tokenizer = trained(models.WordLevel(unk_token="[UNK]"), trainer, pre_tokenizers.Whitespace())
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>")
