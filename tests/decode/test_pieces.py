"""Joining pieces with numpy is `b"".join`, whatever their lengths, even if numpy writes in another order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verl_rollout_dump.decode import pieces as pieces_module
from verl_rollout_dump.decode.pieces import Pieces

PIECES = [bytes(range(33, 33 + length)) for length in range(90)] + [b"x" * 300, b"y" * 16, b"z" * 32, "é".encode()]


def join(pieces, rows, marks=None):
    ids = np.array([token_id for row in rows for token_id in row], np.int64)
    ends = np.cumsum([len(row) for row in rows])
    return Pieces(pieces, marks or [0] * len(pieces)).join(ids, ends)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.lists(st.one_of(st.integers(0, len(PIECES) - 1), st.integers(0, 8)), max_size=30), min_size=1, max_size=6
    )
)
def test_any_rows(rows):
    assert join(PIECES, rows).rows == [b"".join(PIECES[token_id] for token_id in row) for row in rows]


def test_one_table_joins_small_and_large_blocks_in_turn():
    table = Pieces(PIECES, [0] * len(PIECES))
    random = np.random.default_rng(0)
    for count in (0, 1, 100_000, 3, 50_000):
        ids = random.integers(0, len(PIECES), count)
        expected = b"".join(PIECES[token_id] for token_id in ids)
        assert table.join(ids, np.array([count])).rows == [expected]


def test_marks_are_the_highest_of_each_row():
    marks = [0] * len(PIECES)
    marks[3], marks[50], marks[0] = 1, 2, 3
    joined = join(PIECES, [[1, 2], [], [3, 50, 3], [3], [50] * 3, [0]], marks)
    assert joined.marks.tolist() == [0, 0, 2, 1, 2, 3]
    assert joined.rows[2] == PIECES[3] + PIECES[50] + PIECES[3]


class BackToFront:
    """An array whose fancy assignment is carried out from the last index to the first."""

    def __init__(self, array):
        self.array = array

    def __setitem__(self, places, words):
        self.array[places[::-1]] = words[::-1]

    def __getitem__(self, places):
        return self.array[places]


def test_text_overwritten_by_padding_is_noticed_and_joined_again(monkeypatch):
    table = Pieces(PIECES, [0] * len(PIECES))
    words_at_any_byte = pieces_module.words_at_any_byte
    monkeypatch.setattr(pieces_module, "words_at_any_byte", lambda text: BackToFront(words_at_any_byte(text)))
    random = np.random.default_rng(0)
    rows = [random.integers(0, len(PIECES), count) for count in (50, 1, 0, 200)]
    joined = table.join(np.concatenate(rows), np.cumsum([row.size for row in rows]))
    assert joined.rows == [b"".join(PIECES[token_id] for token_id in row) for row in rows]


def test_this_numpy_writes_in_order():
    """Otherwise all would still be right, and slow."""
    table = Pieces(PIECES, [0] * len(PIECES))
    table._pieces = None  # what joining again would read
    table.join(np.random.default_rng(0).integers(0, len(PIECES), 300_000), np.array([100_000, 300_000]))


@pytest.mark.parametrize("count", [1, 2, 1000])
def test_rows_of_empty_pieces(count):
    assert join([b"", b"a"], [[0] * count, [0] * count + [1], []]).rows == [b"", b"a", b""]
