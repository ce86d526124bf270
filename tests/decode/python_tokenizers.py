"""Tokenizers in Python: a transformers one, and toys without a base class."""

import json

from trained_tokenizers import rust_byte_level
from transformers.convert_slow_tokenizer import bytes_to_unicode
from transformers.tokenization_python import PreTrainedTokenizer


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
