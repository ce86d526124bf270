"""Joining pieces is `b"".join`, whatever their lengths, in C and with numpy, even if numpy writes in another order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verl_rollout_dump import native
from verl_rollout_dump.decode import pieces_numpy
from verl_rollout_dump.decode.json_text import COMPLETING, SEPARATORS, is_whole
from verl_rollout_dump.decode.pieces import COMPLETES_SEPARATOR, SPLIT, UNKNOWN
from verl_rollout_dump.decode.pieces_native import NativePieces
from verl_rollout_dump.decode.pieces_numpy import NumpyPieces
from verl_rollout_dump.decode.table import pieces_by_id

PIECES = [bytes(range(33, 33 + length)) for length in range(90)] + [b"x" * 300, b"y" * 16, b"z" * 32, "é".encode()]


def in_c(pieces, marks):
    assert native.library is not None, "native/*.c were not built; `make setup` does"
    return NativePieces(native.library, pieces, marks)


both = pytest.mark.parametrize("make", [in_c, NumpyPieces], ids=["c", "numpy"])


def table(make, pieces=PIECES, marks=None):
    return make([*pieces, b""], [*(marks or [0] * len(pieces)), UNKNOWN])


def side_by_side(rows):
    """The rows one behind the other, seen as a padded array of which each row is a part."""
    flat = np.array([token_id for row in rows for token_id in row], np.int64)
    stops = np.cumsum([len(row) for row in rows])
    return np.broadcast_to(flat, (len(rows), flat.size)), stops - [len(row) for row in rows], stops


def join(make, rows, pieces=PIECES, marks=None):
    joined = table(make, pieces, marks).join(*side_by_side(rows))
    return [bytes(row) for row in joined.rows], joined.marks.tolist()


def test_c_is_what_joins_here():
    assert type(pieces_by_id(PIECES, [0] * len(PIECES))) is NativePieces


def test_numpy_joins_where_nothing_was_built(monkeypatch):
    monkeypatch.setattr(native, "library", None)
    assert type(pieces_by_id(PIECES, [0] * len(PIECES))) is NumpyPieces


@both
@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.one_of(st.integers(0, len(PIECES) - 1), st.integers(0, 8)), max_size=30), min_size=1, max_size=6
    )
)
def test_any_rows(make, rows):
    expected = [b"".join(PIECES[token_id] for token_id in row) for row in rows]
    assert join(make, rows) == (expected, [0] * len(rows))


@both
def test_one_table_joins_small_and_large_rows_in_turn(make):
    pieces, random = table(make), np.random.default_rng(0)
    for count in (0, 1, 100_000, 3, 50_000):
        ids = random.integers(0, len(PIECES), count)
        expected = b"".join(PIECES[token_id] for token_id in ids)
        assert pieces.join(ids[None], np.array([0]), np.array([count])).rows == [expected]


@both
@pytest.mark.parametrize("ids", [[-1, 3], [3, len(PIECES)], [3, 2**62], [-(2**63), 3]])
def test_an_id_outside_is_the_last_piece(make, ids):
    assert join(make, [[1, 2], ids]) == ([PIECES[1] + PIECES[2], PIECES[3]], [0, UNKNOWN])


@both
def test_marks_are_those_of_all_pieces_of_a_row(make):
    marks = [0] * len(PIECES)
    marks[3], marks[50], marks[0] = UNKNOWN, COMPLETES_SEPARATOR, UNKNOWN
    rows, together = join(make, [[1, 2], [], [3, 50, 3], [3], [50] * 3, [0]], marks=marks)
    assert together == [0, 0, UNKNOWN | COMPLETES_SEPARATOR, UNKNOWN, COMPLETES_SEPARATOR, UNKNOWN]
    assert rows[2] == PIECES[3] + PIECES[50] + PIECES[3]


# Every kind of byte that UTF-8 tells apart, alone and in part of a character; whole pieces beside them, an empty one.
BYTES = [bytes([byte]) for byte in (*range(0x80, 0x100, 0x10), 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xED, 0xEF, 0xF4, 0xF5)]
PARTS = [*BYTES, b"\xe2\x80", b"\x9f\x98", b"\xf0\x9f", b"a\xc3", b"\xa9b", b"a", b"", "é".encode(), b"long" * 9]


@both
@settings(max_examples=1000, deadline=None)
@given(rows=st.lists(st.lists(st.sampled_from(range(len(PARTS))), max_size=12), min_size=1, max_size=4))
def test_only_rows_that_are_no_utf8_stay_split(make, rows):
    marks = [0 if is_whole(part) else SPLIT for part in PARTS]
    joined, together = join(make, rows, PARTS, marks)
    assert together == [0 if is_whole(row) else SPLIT for row in joined]


# No separator is whole in one of these, so any in a row was completed by a piece.
PARTS_OF_SEPARATORS = [
    b"\xc2",
    b"\x85",
    b"\xe2",
    b"\x80",
    b"\xa8",
    b"\xa9",
    b"\xe2\x80",
    b"\x80\xa8",
    b"\x80\xa9b",
    b"a",
    b"",
]


@both
@settings(max_examples=1000, deadline=None)
@given(rows=st.lists(st.lists(st.sampled_from(range(len(PARTS_OF_SEPARATORS))), max_size=6), min_size=1, max_size=4))
def test_rows_with_a_completed_separator_are_marked(make, rows):
    marks = [
        (0 if is_whole(part) else SPLIT) | COMPLETES_SEPARATOR * part.startswith(COMPLETING)
        for part in PARTS_OF_SEPARATORS
    ]
    joined, together = join(make, rows, PARTS_OF_SEPARATORS, marks)
    for row, marked in zip(joined, together, strict=True):
        has_separator = any(separator in row for separator in SEPARATORS)
        if make is NumpyPieces:  # marks more than need be
            assert marked & COMPLETES_SEPARATOR or not has_separator
        else:
            assert bool(marked & COMPLETES_SEPARATOR) is has_separator


@pytest.mark.parametrize("low", range(0x80, 0x100, 0x10))
def test_all_pairs_and_triples_of_bytes_as_python_reads_them(low):
    """In C, where UTF-8 is checked by our own code."""
    singles = [bytes([byte]) for byte in range(0x100)]
    marks = [0 if is_whole(single) else SPLIT for single in singles]
    thirds = [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC2]
    rows = [
        [a, b, *end] for a in range(low, low + 16) for b in range(0x70, 0x100) for end in ([], *([c] for c in thirds))
    ]
    rows += [[*row, c] for row in rows if len(row) == 3 for c in (0x7F, 0x80, 0xBF)]
    joined, together = join(in_c, rows, singles, marks)
    assert together == [0 if is_whole(row) else SPLIT for row in joined]


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, ">i8"])
def test_ids_of_other_kinds_and_in_odd_steps(dtype):
    padded = np.arange(24, dtype=dtype).reshape(4, 6)
    expected = [b"".join(PIECES[token_id] for token_id in row) for row in padded.T[::-1, 1:3].tolist()]
    rows = table(in_c).join(padded.T[::-1], np.full(6, 1), np.full(6, 3)).rows
    assert rows == expected


@pytest.mark.parametrize("limit", ["ROOM", "MOST_ROOM"])
def test_text_that_needs_more_room_than_expected(limit, monkeypatch):
    monkeypatch.setattr(native, limit, 64)
    rows = [[90] * 100, [1], [], [89, 90] * 3]
    assert join(in_c, rows)[0] == [b"".join(PIECES[token_id] for token_id in row) for row in rows]


class BackToFront:
    """An array whose fancy assignment is carried out from the last index to the first."""

    def __init__(self, array):
        self.array = array

    def __setitem__(self, places, words):
        self.array[places[::-1]] = words[::-1]

    def __getitem__(self, places):
        return self.array[places]


def test_text_overwritten_by_padding_is_noticed_and_joined_again(monkeypatch):
    pieces = table(NumpyPieces)
    words_at_any_byte = pieces_numpy.words_at_any_byte
    monkeypatch.setattr(pieces_numpy, "words_at_any_byte", lambda text: BackToFront(words_at_any_byte(text)))
    random = np.random.default_rng(0)
    rows = [random.integers(0, len(PIECES), count).tolist() for count in (50, 1, 0, 200)]
    assert pieces.join(*side_by_side(rows)).rows == [b"".join(PIECES[token_id] for token_id in row) for row in rows]


def test_this_numpy_writes_in_order():
    """Otherwise all would still be right, and slow."""
    pieces = table(NumpyPieces)
    pieces._pieces = range(len(PIECES) + 1)  # numbers, which cannot be joined again
    ids = np.random.default_rng(0).integers(0, len(PIECES), (2, 150_000))
    pieces.join(ids, np.zeros(2, np.int64), np.full(2, 150_000))


@both
@pytest.mark.parametrize("count", [1, 2, 1000])
def test_rows_of_empty_pieces(make, count):
    assert join(make, [[0] * count, [0] * count + [1], []], [b"", b"a"])[0] == [b"", b"a", b""]
