"""Values of numpy: what is written, by both strategies, and that floats read back in their own dtype."""
# ruff: noqa: E501 (tables, a case a line)

from __future__ import annotations

import numpy as np
import pytest
from conversion_checks import EARLY, TEXT, marker, same, written

from verl_rollout_dump.serialization import ConversionReport


class Raising(np.ndarray):
    def tolist(self):
        raise RuntimeError("no")


def objects(*items):
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out


RECORDS = [("name", "U3"), ("n", "i4")]

# name, value, what early_convert writes, what str_fallback writes
CASES = [
    ("bool", lambda: np.True_, True, "True"),
    ("integers", lambda: [np.int8(-1), np.uint8(1), np.int64(3), np.uint64(2**64 - 1)], [-1, 1, 3, 2**64 - 1], ["-1", "1", "3", "18446744073709551615"]),
    ("float64", lambda: [np.float64(0.1), np.float64("nan"), np.float64("-inf")], [0.1, None, None], [0.1, None, None]),
    ("float32", lambda: [np.float32(0.1), np.float32("nan")], [0.1, None], ["0.1", "nan"]),
    ("float16", lambda: [np.float16(0.1), np.float16("inf")], [0.1, None], ["0.1", "inf"]),
    ("longdouble", lambda: [np.longdouble(0.5), np.longdouble("nan")], [0.5, None], ["0.5", "nan"]),
    ("out of range", lambda: np.longdouble("1e400"), marker("numpy.longdouble", "out of the range of a double", text="1e+400"), "1e+400"),
    ("complex", lambda: [np.complex64(1 + 0.1j), np.complex128(1j), np.clongdouble(2)], [{"$complex": [1.0, 0.1]}, {"$complex": [0.0, 1.0]}, {"$complex": [2.0, 0.0]}], ["(1+0.1j)", "1j", "(2+0j)"]),
    ("str_", lambda: np.str_("a"), "a", "a"),
    ("bytes_", lambda: np.bytes_(b"x"), {"$bytes": "eA=="}, "b'x'"),
    ("datetime ns", lambda: np.datetime64("2026-01-02T03:04:05", "ns"), "2026-01-02T03:04:05.000000000", "2026-01-02T03:04:05.000000000"),
    ("datetime s", lambda: np.datetime64("2026-01-02T03:04:05"), "2026-01-02T03:04:05", "2026-01-02T03:04:05"),
    ("datetime D, M, Y", lambda: [np.datetime64("2026-01-02"), np.datetime64("2026-01"), np.datetime64("2026")], ["2026-01-02", "2026-01", "2026"], ["2026-01-02", "2026-01", "2026"]),
    ("NaT", lambda: [np.datetime64("NaT"), np.timedelta64("NaT")], [None, None], ["NaT", "NaT"]),
    ("timedelta", lambda: [np.timedelta64(-1500, "ms"), np.timedelta64(3, "D"), np.timedelta64(2, "W")], ["-PT1.5S", "P3D", "P14D"], ["-1500 milliseconds", "3 days", "2 weeks"]),
    ("timedelta calendar", lambda: [np.timedelta64(3, "Y"), np.timedelta64(-3, "M"), np.timedelta64(5)], ["P3Y", "-P3M", 5], ["3 years", "-3 months", "5 generic time units"]),
    ("timedelta as", lambda: np.timedelta64(1, "as"), "PT0.000000000000000001S", "1 attoseconds"),
    ("record", lambda: np.array([("a", 1)], dtype=RECORDS)[0], {"name": "a", "n": 1}, "('a', 1)"),
    ("void", lambda: np.void(b"\0\1"), {"$bytes": "AAE="}, "b'\\x00\\x01'"),
    ("0-d", lambda: [np.array(3), np.array("a"), np.array(None)], [3, "a", None], ["3", "a", "None"]),
    ("1-d", lambda: np.arange(3), [0, 1, 2], "[0 1 2]"),
    ("2-d", lambda: np.arange(4).reshape(2, 2), [[0, 1], [2, 3]], "[[0 1]\n [2 3]]"),
    ("empty", lambda: [np.array([]), np.zeros((0, 3)), np.zeros((2, 0))], [[], [], [[], []]], ["[]", "[]", "[]"]),
    ("bools", lambda: np.array([True, False]), [True, False], "[ True False]"),
    ("non-contiguous", lambda: np.arange(6).reshape(2, 3)[:, ::2], [[0, 2], [3, 5]], "[[0 2]\n [3 5]]"),
    ("reversed float32", lambda: np.array([0.1, 0.2], dtype="f4")[::-1], [0.2, 0.1], "[0.2 0.1]"),
    ("big-endian", lambda: [np.arange(2, dtype=">i4"), np.array([0.1], dtype=">f4"), np.array([0.1], dtype=">f2")], [[0, 1], [0.1], [0.1]], ["[0 1]", "[0.1]", "[0.1]"]),
    ("float16 2-d", lambda: np.array([[0.1, np.nan], [1, 2]], dtype="f2"), [[0.1, None], [1.0, 2.0]], "[[0.1 nan]\n [1.  2. ]]"),
    ("nan inside", lambda: np.array([[np.nan, 1], [2, np.inf]], dtype="f4"), [[None, 1.0], [2.0, None]], "[[nan  1.]\n [ 2. inf]]"),
    ("complex array", lambda: np.array([[1 + 2j], [complex("nan")]]), [[{"$complex": [1.0, 2.0]}], [{"$complex": [None, 0.0]}]], "[[ 1.+2.j]\n [nan+0.j]]"),
    ("object", lambda: objects(0.5, {"k": [np.int64(2), np.array([True])]}), [0.5, {"k": [2, [True]]}], "[0.5 {'k': [np.int64(2), array([ True])]}]"),
    ("text array", lambda: np.array(["a", "bc"]), ["a", "bc"], "['a' 'bc']"),
    ("bytes array", lambda: np.array([b"a"]), [{"$bytes": "YQ=="}], "[b'a']"),
    ("datetime array", lambda: np.array(["2026-01-02", "NaT"], dtype="M8[D]"), ["2026-01-02", None], "['2026-01-02'        'NaT']"),
    ("timedelta array", lambda: np.array([1, 2], dtype="m8[s]"), ["PT1S", "PT2S"], "[1 2]"),
    ("structured", lambda: np.array([("a", 1)], dtype=RECORDS), [{"name": "a", "n": 1}], "[('a', 1)]"),
    ("structured 0-d", lambda: np.array(("a", 1), dtype=RECORDS), {"name": "a", "n": 1}, "('a', 1)"),
    ("record array", lambda: np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")]), [{"a": 1, "b": 2.0}], "[(1, 2.)]"),
    ("masked", lambda: np.ma.array([1, 2, 3], mask=[0, 1, 0]), [1, None, 3], "[1 -- 3]"),
    ("masked 2-d nan", lambda: np.ma.array([[1.0, np.nan]], mask=[[0, 1]]), [[1.0, None]], "[[1.0 --]]"),
    ("masked nothing", lambda: np.ma.array([1, 2]), [1, 2], "[1 2]"),
    ("masked records", lambda: np.ma.array([("a", 1)], mask=[(False, True)], dtype=RECORDS), [{"name": "a", "n": None}], "[('a', --)]"),
    ("masked value", lambda: np.ma.masked, None, "--"),
    ("matrix", lambda: np.asmatrix([[1, 2]]), [[1, 2]], "[[1 2]]"),
    ("subclass that raises", lambda: np.arange(2).view(Raising), [0, 1], "[0 1]"),
    ("dtype", lambda: np.dtype("int64"), "int64", "int64"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "early", "text"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_value(value, early, text):
    assert same(written(EARLY, value()), early)
    assert same(written(TEXT, value()), text)


@pytest.mark.parametrize("dtype", ["float16", "float32", ">f4"])
def test_floats_read_back_in_their_own_dtype_and_are_shortest(dtype):
    size = np.dtype(dtype).itemsize
    bits = np.random.default_rng(0).integers(0, 2 ** (8 * size), 200_000, dtype=np.uint64).astype(f"u{size}")
    array = bits.view(np.dtype(dtype).newbyteorder("="))
    array = array[np.isfinite(array)].astype(dtype)
    values = EARLY.convert_value("v", array, ConversionReport())
    assert np.array_equal(np.array(values).astype(dtype), array)
    assert values[:5_000] == [float(str(number)) for number in array[:5_000]]


def test_negative_zero_keeps_its_sign():
    zeros = [
        np.float16(-0.0),
        np.float32(-0.0),
        np.float64(-0.0),
        np.array([-0.0], dtype="f2"),
        np.array([-0.0], dtype="f4"),
    ]
    assert same(written(EARLY, zeros), [-0.0, -0.0, -0.0, [-0.0], [-0.0]])


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="longdouble is a double here")
def test_extended_precision_keeps_its_digits():
    from conversion_checks import line_of

    third = np.longdouble(1) / 3
    assert line_of(EARLY, third)[0] == b'{"v":%s}' % str(third).encode()
    assert line_of(EARLY, np.array([third, 0.5]))[0] == b'{"v":[%s,0.5]}' % str(third).encode()


def test_text_of_a_long_array_is_whole():
    # huggingface/datasets#8583
    assert written(EARLY, np.arange(2000)) == list(range(2000))
    text = written(TEXT, {"lp": np.arange(2000), "in": [objects(np.arange(2000))]})
    assert "..." not in str(text)
    assert text["lp"].strip("[]").split() == [str(number) for number in range(2000)]


def test_a_self_containing_array_ends():
    array = objects(1, None)
    array[1] = array
    assert written(EARLY, array) == [1, "<circular>"]


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="numpy 2")
def test_string_dtype():
    assert written(EARLY, np.array(["a", "\ud83d"[:0]], dtype=np.dtypes.StringDType())) == ["a", ""]
