"""Values of Python and its standard library: what is written, by both strategies."""
# ruff: noqa: E501 (tables, a case a line)

from __future__ import annotations

import array
import collections
import datetime
import decimal
import enum
import fractions
import functools
import ipaddress
import json
import pathlib
import sys
import types
import uuid

import pytest
from conversion_checks import EARLY, TEXT, marker, same, written


class Color(enum.Enum):
    RED = "r"


class Level(enum.IntEnum):
    HIGH = 3


class Flag(enum.IntFlag):
    A = 1
    B = 2


class Letter(str, enum.Enum):
    A = "a"


class Text(str):
    __slots__ = ()


class Count(int):
    pass


class Ratio(float):
    pass


class Rows(list):
    pass


class Info(dict):
    pass


Pair = collections.namedtuple("Pair", "a b")
UTC = datetime.timezone.utc
HERE = __name__

# name, value, what early_convert writes, what str_fallback writes
CASES = [
    ("none", lambda: None, None, None),
    ("bool", lambda: [True, False], [True, False], [True, False]),
    ("int", lambda: [0, -(2**63), 2**64 - 1], [0, -(2**63), 2**64 - 1], [0, -(2**63), 2**64 - 1]),
    ("wide int", lambda: [2**64, -(2**63) - 1, 2**53 + 1], [2**64, -(2**63) - 1, 2**53 + 1], [2**64, -(2**63) - 1, 2**53 + 1]),
    ("huge int", lambda: 16**400, {"$int": "0x1" + "0" * 400}, {"$int": "0x1" + "0" * 400}),
    ("over 4300 digits", lambda: 16**5000, {"$int": "0x1" + "0" * 5000}, {"$int": "0x1" + "0" * 5000}),
    ("float", lambda: [0.1, -0.0, 1e300, 1.0], [0.1, -0.0, 1e300, 1.0], [0.1, -0.0, 1e300, 1.0]),
    ("nan", lambda: [float("nan"), float("inf"), -float("inf")], [None, None, None], [None, None, None]),
    ("str", lambda: "naïve ✓ 😀\0\t", "naïve ✓ 😀\0\t", "naïve ✓ 😀\0\t"),
    ("subclasses", lambda: [Text("a"), Count(3), Ratio(0.5)], ["a", 3, 0.5], ["a", 3, 0.5]),
    ("containers", lambda: Rows([Info(a=(1, "x"))]), [{"a": [1, "x"]}], [{"a": [1, "x"]}]),
    ("empty", lambda: [[], {}, (), ""], [[], {}, [], ""], [[], {}, [], ""]),
    ("named tuple", lambda: Pair(1, 2), [1, 2], [1, 2]),
    ("OrderedDict", lambda: collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}, {"b": 1, "a": 2}),
    ("defaultdict", lambda: collections.defaultdict(int, a=1), {"a": 1}, {"a": 1}),
    ("Counter", lambda: collections.Counter("aab"), {"a": 2, "b": 1}, {"a": 2, "b": 1}),
    ("deque", lambda: collections.deque([1, 2]), [1, 2], "deque([1, 2])"),
    ("range", lambda: range(3), [0, 1, 2], "range(0, 3)"),
    ("long range", lambda: range(10**12), marker("range", "more than 1000000 elements", text="range(0, 1000000000000)"), "range(0, 1000000000000)"),
    ("views", lambda: {1: 2}.keys(), [1], "dict_keys([1])"),
    ("items", lambda: {1: 2}.items(), [[1, 2]], "dict_items([(1, 2)])"),
    ("mappingproxy", lambda: types.MappingProxyType({"a": 1}), {"a": 1}, "{'a': 1}"),
    ("ChainMap", lambda: collections.ChainMap({"a": 1}), {"a": 1}, "ChainMap({'a': 1})"),
    ("UserDict", lambda: collections.UserDict(a=1), {"a": 1}, "{'a': 1}"),
    ("UserList", lambda: collections.UserList([1]), [1], "[1]"),
    ("UserString", lambda: collections.UserString("x"), "x", "x"),
    ("namespace", lambda: types.SimpleNamespace(a=1), {"a": 1}, "namespace(a=1)"),
    ("array", lambda: array.array("i", [1, 2]), [1, 2], "array('i', [1, 2])"),
    ("set", lambda: {10, 2, 1}, [1, 2, 10], "{1, 10, 2}"),
    ("mixed set", lambda: frozenset({1, "a", None, 2.5, (1, 2), b"x"}), [None, 1, 2.5, "a", [1, 2], {"$bytes": "eA=="}], "frozenset({'a', (1, 2), 1, 2.5, None, b'x'})"),
    ("empty set", lambda: set(), [], "set()"),
    ("bytes", lambda: b"\xff\x00", {"$bytes": "/wA="}, "b'\\xff\\x00'"),
    ("bytearray", lambda: bytearray(b"a"), {"$bytes": "YQ=="}, "bytearray(b'a')"),
    ("memoryview", lambda: memoryview(b"abcd")[::2], {"$bytes": "YWM="}, "b'ac'"),
    ("complex", lambda: 1 - 2j, {"$complex": [1.0, -2.0]}, "(1-2j)"),
    ("complex nan", lambda: complex("nan"), {"$complex": [None, 0.0]}, "(nan+0j)"),
    ("Enum", lambda: Color.RED, "r", "Color.RED"),
    ("IntEnum", lambda: Level.HIGH, 3, 3),
    ("IntFlag", lambda: Flag.A | Flag.B, 3, 3),
    ("str Enum", lambda: Letter.A, "a", "a"),
    ("Decimal", lambda: decimal.Decimal("0.10"), "0.10", "0.10"),
    ("Decimal nan", lambda: decimal.Decimal("NaN"), "NaN", "NaN"),
    ("Fraction", lambda: fractions.Fraction(1, 3), "1/3", "1/3"),
    ("UUID", lambda: uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000001"),
    ("Path", lambda: pathlib.PurePosixPath("a/b"), "a/b", "a/b"),
    ("address", lambda: ipaddress.ip_address("1.2.3.4"), "1.2.3.4", "1.2.3.4"),
    ("date", lambda: datetime.date(2026, 1, 2), "2026-01-02", "2026-01-02"),
    ("time", lambda: datetime.time(1, 2, 3, 4), "01:02:03.000004", "01:02:03.000004"),
    ("naive datetime", lambda: datetime.datetime(2026, 1, 2), "2026-01-02T00:00:00", "2026-01-02 00:00:00"),
    ("aware datetime", lambda: datetime.datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00", "2026-01-02 00:00:00+00:00"),
    ("timedelta", lambda: datetime.timedelta(days=1, seconds=2.5), "P1DT2.5S", "1 day, 0:00:02.500000"),
    ("negative timedelta", lambda: datetime.timedelta(hours=-1.5), "-PT1H30M", "-1 day, 22:30:00"),
    ("no timedelta", lambda: datetime.timedelta(0), "PT0S", "0:00:00"),
    ("exception", lambda: ValueError("no"), {"type": "ValueError", "message": "no"}, "no"),
    ("generator", lambda: (i for i in "a"), marker("generator", "an iterator, which is not consumed"), "<generator object <lambda>.<locals>.<genexpr>>"),
    ("iterator", lambda: iter([1]), marker("list_iterator", "an iterator, which is not consumed"), "<list_iterator object>"),
    ("function", lambda: len, marker("builtin_function_or_method", "code, not data", name="len"), "<built-in function len>"),
    ("method", lambda: "".join, marker("builtin_function_or_method", "code, not data", name="str.join"), "<built-in method join of str object>"),
    ("partial", lambda: functools.partial(json.dumps), marker("functools.partial", "code, not data", name="json.dumps"), "functools.partial(<function dumps>)"),
    ("class", lambda: Text, marker("type", "code, not data", name=f"{HERE}.Text"), f"<class '{HERE}.Text'>"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "early", "text"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_value(value, early, text):
    assert same(written(EARLY, value()), early)
    assert same(written(TEXT, value()), text)


def test_a_generator_is_not_consumed():
    generator = (number for number in range(3))
    written(EARLY, generator)
    written(TEXT, generator)
    assert list(generator) == [0, 1, 2]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.11")
def test_str_enum():
    grade = enum.StrEnum("Grade", {"OK": "ok"})
    assert written(EARLY, grade.OK) == written(TEXT, grade.OK) == "ok"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.11")
def test_exception_group():
    group = ExceptionGroup("two", [ValueError("a"), KeyError("b")])  # noqa: F821 (a builtin since 3.11)
    assert written(EARLY, group) == {
        "type": "ExceptionGroup",
        "message": "two (2 sub-exceptions)",
        "exceptions": [{"type": "ValueError", "message": "a"}, {"type": "KeyError", "message": "'b'"}],
    }
