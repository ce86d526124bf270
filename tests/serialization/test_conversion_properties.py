"""Arbitrary nested values of all kinds: strict JSON, one line, as the slow reference says, the same every time.

Run with HYPOTHESIS_PROFILE=fuzz for a million examples.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import json
import pathlib
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from conversion_checks import line_of, read_strictly
from conversion_reference import early, fallback, repaired
from hypothesis import given, settings
from hypothesis import strategies as st

from verl_rollout_dump.config.schema import SerializationConfig, Strategy
from verl_rollout_dump.serialization import (
    ConversionReport,
    Serializer,
    decode_markers,
    encode_record,
    escape_line_separators,
    repair_text,
)

torch = pytest.importorskip("torch")

Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Point:
    x: Any
    y: Any


class Color(enum.Enum):
    RED = "r"
    ONE = 1
    BOTH = (1, "r")


class Text(str):
    __slots__ = ()


class Opaque:
    pass


# The examples of all tests here together; each takes its share.
EXAMPLES = settings().max_examples

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8) | st.sampled_from(
    ["", "$bytes", "$$int", "$marker", "1", "1__2", "true", "\ud83d\ude00", "a\u2028b\x85", "\ud83d", "null", "(1, 2)"]
)
INTEGERS = (
    st.integers(-(2**70), 2**70) | st.integers(-9, 9) | st.sampled_from([2**63, 2**64, -(2**63), 10**309, 16**300])
)
NUMPY_SCALARS = st.one_of(
    st.booleans().map(np.bool_),
    st.integers(-128, 127).map(np.int8),
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.integers(0, 2**64 - 1).map(np.uint64),
    st.floats(width=16).map(np.float16),
    st.floats(width=32).map(np.float32),
    st.floats().map(np.float64),
    st.complex_numbers(width=64).map(np.complex64),
    st.sampled_from([np.datetime64("2026-01-02T03:04:05", "ns"), np.datetime64("NaT"), np.str_("s"), np.bytes_(b"x")]),
)
DTYPES = st.sampled_from(["bool", "i1", "i8", "u8", "f2", "f4", "f8", ">i4", ">f4", "c16", "U3", "S2", "M8[s]"])
ARRAYS = DTYPES.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)
TENSORS = hnp.arrays(
    "f4", hnp.array_shapes(min_dims=0, max_dims=2, max_side=3), elements=st.floats(-8, 8, width=16)
).flatmap(
    lambda array: st.sampled_from([torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float64]).map(
        lambda dtype: torch.from_numpy(array.copy()).to(dtype)
    )
)
HASHABLE = st.one_of(
    st.none(),
    st.booleans(),
    INTEGERS,
    st.floats(),
    ANY_TEXT,
    st.binary(max_size=4),
    st.sampled_from(list(Color)),
    st.sampled_from(
        [np.int64(1), np.float32(0.5), np.bool_(True), Text("sub"), (1, 2), ("a", (np.int64(1), None, 0.5)), ()]
    ),
    st.dates(),
)
LEAVES = st.one_of(
    HASHABLE,
    NUMPY_SCALARS,
    ARRAYS,
    TENSORS,
    st.decimals(allow_nan=False, places=2),
    st.fractions(),
    st.datetimes(timezones=st.none() | st.just(datetime.timezone.utc)),
    st.timedeltas(datetime.timedelta(-99), datetime.timedelta(99)),
    st.uuids(),
    st.complex_numbers(),
    st.binary(max_size=4).map(bytearray),
    st.sampled_from([pathlib.PurePosixPath("a/b"), ValueError("no"), range(3)]),
    st.builds(Opaque),
)


def containers(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inside, max_size=4)
    return st.one_of(
        lists,
        lists.map(tuple),
        lists.map(collections.deque),
        lists.map(object_array),
        st.dictionaries(HASHABLE, inside, max_size=4),
        st.dictionaries(ANY_TEXT, inside, max_size=3).map(collections.OrderedDict),
        st.frozensets(HASHABLE, max_size=4),
        st.builds(Point, inside, inside),
        st.builds(Pair, inside, inside),
        inside.map(lambda value: [value, value]),
    )


def object_array(items: list[Any]) -> np.ndarray:
    array = np.empty(len(items), dtype=object)
    for place, item in enumerate(items):
        array[place] = item
    return array


VALUES = st.recursive(LEAVES, containers, max_leaves=10)


def same_json(value: Any, expected: Any) -> None:
    assert json.dumps(value) == json.dumps(expected)


def check(strategy: Strategy, value: Any, expected: Any) -> None:
    before = repr(value)
    config = SerializationConfig(strategy=strategy)
    line, report = line_of(Serializer(config), value)
    same_json(read_strictly(line)["v"], expected)
    again, report_again = line_of(Serializer(config), value)
    assert line == again
    assert report.as_list() == report_again.as_list()
    assert repr(value) == before


@settings(max_examples=EXAMPLES * 4 // 21)
@given(VALUES)
def test_early_convert_is_what_the_reference_says(value):
    check(Strategy.early_convert, value, early(value))


@settings(max_examples=EXAMPLES * 2 // 21)
@given(
    st.recursive(
        LEAVES,
        lambda inside: st.lists(inside, max_size=4) | st.dictionaries(HASHABLE, inside, max_size=4),
        max_leaves=8,
    )
)
def test_str_fallback_is_what_the_reference_says(value):
    check(Strategy.str_fallback, value, fallback(value))


@st.composite
def columns(draw: Any) -> list[Any]:
    """Return a column: of one kind, of like dicts, of lists, or of anything."""
    kinds = st.sampled_from([NUMPY_SCALARS, st.floats(), st.integers(), ANY_TEXT, st.booleans(), LEAVES, st.none()])
    leaf = draw(kinds)
    keyed = st.fixed_dictionaries(
        {key: draw(kinds) for key in draw(st.lists(st.sampled_from(["a", "b", "é", "$int"]), unique=True))}
    )
    row = draw(
        st.sampled_from(
            [
                leaf,
                keyed,
                st.lists(keyed, max_size=3),
                st.lists(leaf, max_size=3),
                keyed | leaf,
                st.fixed_dictionaries({"in": keyed, "n": leaf}),
                VALUES,
            ]
        )
    )
    return draw(st.lists(row, max_size=6))


@settings(max_examples=EXAMPLES * 3 // 21)
@given(columns(), st.sampled_from(list(Strategy)), st.sampled_from([2, 64]))
def test_a_column_is_its_rows(rows, strategy, max_depth):
    serializer = Serializer(SerializationConfig(strategy=strategy, max_depth=max_depth))
    at_once, one_by_one = ConversionReport(), ConversionReport()
    column = serializer.convert_column("v", rows, at_once)
    values = [serializer.convert_value("v", row, one_by_one, record) for record, row in enumerate(rows)]
    assert encode_record({"v": column}) == encode_record({"v": values})
    assert at_once.as_list() == one_by_one.as_list()


@settings(max_examples=EXAMPLES * 3 // 21)
@given(columns(), st.sampled_from(list(Strategy)), st.sampled_from([2, 64]))
def test_a_copied_column_is_the_column_converted(rows, strategy, max_depth):
    serializer = Serializer(SerializationConfig(strategy=strategy, max_depth=max_depth))
    copied = serializer.copy_column(rows)
    now, later, again = ConversionReport(), ConversionReport(), ConversionReport()
    column = encode_record({"v": serializer.convert_column("v", rows, now)})
    scramble(rows)
    if copied is not None:
        for report in (later, again):
            assert encode_record({"v": serializer.convert_column("v", copied, report)}) == column
            assert report.as_list() == now.as_list()


def scramble(value):
    """Change everything in there that can be changed, as a trainer might that goes on with it."""
    if type(value) is list:
        for item in value:
            scramble(item)
        value[:] = ["changed"] * (len(value) + 1)
    elif type(value) is dict:
        for item in value.values():
            scramble(item)
        value.clear()
        value["changed"] = True
    elif type(value) is np.ndarray and value.flags.writeable:
        value[...] = np.zeros((), value.dtype)


@settings(max_examples=EXAMPLES * 4 // 21)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.integers()
        | st.binary(max_size=5)
        | ANY_TEXT.map(repaired),
        lambda inside: st.lists(inside, max_size=3) | st.dictionaries(ANY_TEXT.map(repaired), inside, max_size=3),
        max_leaves=8,
    )
)
def test_markers_are_decoded_and_nothing_else_is(value):
    line, _ = line_of(Serializer(SerializationConfig()), value)
    assert decode_markers(read_strictly(line)["v"]) == value


@settings(max_examples=EXAMPLES * 8 // 21)
@given(
    st.text(
        st.characters(exclude_categories=()) | st.sampled_from("\ud83d\ude00\u2028\u2029\x85\x0b\x0c\x1c"), max_size=20
    )
)
def test_text_is_repaired_and_stays_on_one_line(text):
    fixed = repair_text(text)
    assert fixed == repaired(text)
    assert (fixed is text) == (fixed == text)
    line = escape_line_separators(json.dumps(fixed, ensure_ascii=False).encode())
    assert json.loads(line) == fixed
    assert len(line.decode().splitlines()) == 1
