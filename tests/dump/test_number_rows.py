"""Rows of numbers as JSON arrays: in C, spelt as orjson spells them, whatever the numbers."""

import json

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verl_rollout_dump import native
from verl_rollout_dump.dump.line_encoder import by_orjson, json_arrays
from verl_rollout_dump.native import NotFinite

FLOAT_BITS = st.integers(0, 2**32 - 1).filter(lambda bits: bits & 0x7F800000 != 0x7F800000)
INTEGERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-200, 200), st.integers(0, 18).map(lambda n: 10**n))


def rows_of(numbers):
    numbers = np.asarray(numbers)
    return numbers[None], np.zeros(1, np.int64), np.array([numbers.size])


def spelt(numbers):
    (row,) = json_arrays(*rows_of(numbers))
    return bytes(row)


@settings(max_examples=500, deadline=None)
@given(st.lists(FLOAT_BITS, max_size=40))
def test_any_float32(bits):
    numbers = np.array(bits, np.uint32).view(np.float32)
    assert spelt(numbers) == orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY)
    assert np.array(json.loads(spelt(numbers)), np.float32).tobytes() == numbers.tobytes()


def test_every_exponent_with_many_fractions():
    """Powers of two, and the numbers beside them, are where the distance to the next number changes."""
    fractions = np.concatenate(
        [np.arange(64), 0x7FFFFF - np.arange(64), np.random.default_rng(0).integers(0, 1 << 23, 3968)]
    )
    for exponent in range(255):
        numbers = (np.uint32(exponent) << np.uint32(23) | fractions.astype(np.uint32)).view(np.float32)
        assert spelt(numbers) == orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY), exponent


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *((0.0, b"0.0"), (-0.0, b"-0.0"), (1.0, b"1.0"), (0.3, b"0.3"), (-0.71818626, b"-0.71818626")),
        *((1e-5, b"0.00001"), (1e-6, b"0.000001"), (1e-7, b"1e-7"), (1e-45, b"1e-45"), (123456.7, b"123456.7")),
        *(
            (16777216, b"16777216.0"),
            (1e12, b"1000000000000.0"),
            (1.5e13, b"1.5e+13"),
            (3.4028235e38, b"3.4028235e+38"),
        ),
    ],
)
def test_float32_by_example(number, text):
    assert spelt(np.array([number], np.float32)) == b"[" + text + b"]"


@settings(max_examples=500, deadline=None)
@given(st.lists(INTEGERS, max_size=40))
def test_any_integer(numbers):
    assert spelt(np.array(numbers, np.int64)) == orjson.dumps(numbers)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", ">i4", "u1", "u2", "u4", "u8", "f2", "f8", ">f4"])
@pytest.mark.parametrize("library", [native.library, None], ids=["c", "orjson"])
def test_numbers_of_every_size(dtype, library, monkeypatch):
    monkeypatch.setattr(native, "library", library)
    numbers = np.array([[1, 0, 127], [3, 4, 5]], dtype)
    rows = json_arrays(numbers, np.array([1, 0]), np.array([3, 2]))
    assert [json.loads(bytes(row)) for row in rows] == [[0, 127], [3, 4]]


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
@pytest.mark.parametrize("limit", ["ROOM", "MOST_ROOM"])
def test_parts_of_rows_in_more_than_one_buffer(dtype, limit, monkeypatch):
    monkeypatch.setattr(native, limit, 1)
    numbers = (np.random.default_rng(0).integers(0, 10**7, (30, 50)) / 1000).astype(dtype)
    starts, stops = np.arange(30), np.arange(30) + np.arange(30) % 21
    assert list(json_arrays(numbers, starts, stops)) == by_orjson(numbers, starts, stops)
    assert list(json_arrays(numbers[::-1, ::-1], starts, stops)) == by_orjson(numbers[::-1, ::-1], starts, stops)


@pytest.mark.parametrize("library", [native.library, None], ids=["c", "orjson"])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_json_has_no_number_for_is_refused_where_it_counts(library, number, monkeypatch):
    monkeypatch.setattr(native, "library", library)
    numbers = np.array([[number, 1.5]], np.float32)
    assert [bytes(row) for row in json_arrays(numbers, np.array([1]), np.array([2]))] == [b"[1.5]"]
    with pytest.raises(NotFinite):
        json_arrays(numbers, np.array([0]), np.array([2]))


def test_no_rows():
    assert list(json_arrays(np.zeros((0, 3), np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))) == []
    assert spelt(np.zeros(0, np.float32)) == b"[]"


def test_numbers_at_odd_addresses():
    for dtype in (np.int64, np.float32):
        numbers = np.frombuffer(b"x" + np.arange(6, dtype=dtype).tobytes(), dtype, offset=1).reshape(2, 3)
        rows = json_arrays(numbers, np.array([1, 0]), np.array([3, 1]))
        assert [json.loads(bytes(row)) for row in rows] == [[1, 2], [3]]
