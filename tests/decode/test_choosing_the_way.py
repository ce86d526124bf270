"""A way is taken for what it does, not for what the tokenizer is called; asking is cheap until the first row."""

import subprocess
import sys
import threading

import numpy as np
import orjson
import pytest
from decode_tokenizers import decoded
from python_tokenizers import Characters
from tokenizers import decoders
from trained_tokenizers import byte_fallback, byte_fallback_decoder, byte_level, wordpiece

from verl_rollout_dump.decode import text_decoder


def rows_of(decoder, rows):
    """The decoder's texts for lists of ids."""
    width = max(map(len, rows))
    ids = np.array([row + [0] * (width - len(row)) for row in rows])
    bodies = decoder.json_rows(ids, np.zeros(len(rows), np.int64), np.array([len(row) for row in rows]))
    return [orjson.loads(b'"' + body + b'"') for body in bodies]


def test_nothing_heavy_is_imported():
    code = (
        "import sys, verl_rollout_dump.decode as decode; decode.text_decoder(object());"
        "heavy = {'torch', 'transformers', 'tokenizers', 'pyarrow'}.intersection(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_making_a_decoder_asks_the_tokenizer_nothing():
    class Untouchable:
        def __getattribute__(self, name):
            raise AssertionError(name) if name != "decode" else AttributeError(name)

        batch_decode = None

    text_decoder(Untouchable())


def test_a_row_alone_in_python_that_changes_the_text():
    """A user's subclass whose Python side does more than the Rust side."""
    tokenizer = byte_level()
    plain = tokenizer.decode
    tokenizer.decode = lambda ids, skip_special_tokens=False: plain(
        ids, skip_special_tokens=skip_special_tokens
    ).strip()
    decoder = text_decoder(tokenizer)
    assert decoder.method == "decode"
    assert "disagrees" in decoder.why
    ids = plain.__self__.encode("  a b  ")
    assert rows_of(decoder, [ids]) == ["a b"]


def test_a_decoder_of_the_same_steps_with_other_settings():
    tokenizer = byte_fallback(decoders.Sequence([decoders.Replace("▁", "_"), decoders.ByteFallback(), decoders.Fuse()]))
    decoder = text_decoder(tokenizer)
    assert decoder.method == "decode_batch"
    ids = tokenizer.encode("hello world")
    assert rows_of(decoder, [ids]) == [tokenizer.decode(ids, skip_special_tokens=True)]


def test_a_vocabulary_that_cannot_be_read():
    class Broken(Characters):
        def get_vocab(self):
            raise OSError("no file")

    decoder = text_decoder(Broken())
    assert decoder.method == "decode"
    assert "no file" in decoder.why
    assert rows_of(decoder, [[97, 98]]) == ["ab"]


def test_two_threads_may_share_a_decoder():
    tokenizer = byte_level()
    decoder = text_decoder(tokenizer)
    ids = tokenizer.encode("def f(x): return x  # 你好 🧑🏽‍🚀") * 200
    expected = decoded(tokenizer, ids, True)
    results = []
    threads = [threading.Thread(target=lambda: results.extend(rows_of(decoder, [ids] * 20))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 80


@pytest.mark.parametrize("make", [wordpiece, byte_level])
def test_the_training_thread_may_change_its_tokenizer_meanwhile(make):
    """Rust borrows a tokenizer while `decode_batch` runs; padding set on the same object would then raise."""
    tokenizer = make()
    decoder = text_decoder(tokenizer)
    decoder.prepare()
    ids = tokenizer.encode("the parser of the arguments and its options") * 300
    background = threading.Thread(target=lambda: [rows_of(decoder, [ids] * 64) for _ in range(5)])
    background.start()
    while background.is_alive():
        tokenizer.backend_tokenizer.enable_truncation(100)
        tokenizer.backend_tokenizer.no_truncation()
    background.join()


@pytest.mark.parametrize("refused", [-100, -1, 2**32, 2**40])
@pytest.mark.parametrize("make", [byte_level, wordpiece, lambda: byte_fallback(byte_fallback_decoder())])
def test_ids_that_the_tokenizer_refuses_are_shown_and_counted(make, refused):
    tokenizer = make()
    decoder = text_decoder(tokenizer)
    ids = tokenizer.encode("parser options")
    with pytest.raises(OverflowError):
        tokenizer.decode([refused])
    text = tokenizer.decode(ids, skip_special_tokens=True)
    texts = rows_of(decoder, [ids, [*ids, refused, refused, *ids], [refused]])
    marker = f"<|id={refused}|>"
    assert texts == [text, text + marker * 2 + text, marker]
    assert decoder.refused_ids == 3


def test_ids_beyond_the_vocabulary_are_what_the_tokenizer_makes_of_them():
    tokenizer = byte_level()
    ids = tokenizer.encode("parser")
    beyond = len(tokenizer) + 5
    assert rows_of(text_decoder(tokenizer), [[*ids, beyond, 2**31, *ids]]) == [tokenizer.decode(ids + ids)]
    assert rows_of(text_decoder(Characters()), [[97, 600, 98]]) == ["a<|id=600|>b"]


def test_a_tokenizer_that_panics_in_rust(capfd):
    """`Strip` from the right panics on a text that is shorter than it strips: no subclass of Exception."""
    tokenizer = byte_fallback(byte_fallback_decoder(decoders.Strip(content=" ", right=1)))
    decoder = text_decoder(tokenizer)
    ids = tokenizer.encode("parser options")
    special = tokenizer.convert_tokens_to_ids("<pad>")
    assert rows_of(decoder, [ids, [special], ids]) == [
        tokenizer.decode(ids),
        f"<|id={special}|>",
        tokenizer.decode(ids),
    ]
    capfd.readouterr()


def test_ids_that_are_accepted_alone_and_refused_together():
    class Fussy:
        def decode(self, ids, skip_special_tokens=False):
            if len(ids) > 1:
                raise ValueError("one at a time")
            return "x"

    decoder = text_decoder(Fussy())
    assert rows_of(decoder, [[1, 2], [3]]) == ["<|id=1|><|id=2|>", "x"]
    assert decoder.refused_ids == 2
