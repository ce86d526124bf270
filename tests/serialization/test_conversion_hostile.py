"""Values that raise whatever is asked of them: nothing but a marker comes of it."""

from __future__ import annotations

import collections
import json

import numpy as np
import pytest
from conversion_checks import EARLY, TEXT, line_of, marker, written

from verl_rollout_dump.config.schema import SerializationConfig, Unknown
from verl_rollout_dump.serialization import (
    ConversionError,
    ConversionReport,
    Serializer,
    encode_record,
)


class Loud:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name):
        raise RuntimeError("no")

    def __repr__(self):
        raise RuntimeError("no")

    def __eq__(self, other):
        raise RuntimeError("no")

    def __hash__(self):
        return 1

    def __len__(self):
        raise RuntimeError("no")

    def __iter__(self):
        raise RuntimeError("no")

    def tolist(self):
        raise RuntimeError("no")


class LoudList(list):
    __iter__ = __len__ = __repr__ = Loud.__iter__


class LoudDict(dict):
    items = __iter__ = __len__ = __repr__ = Loud.__iter__


class LoudText(str):
    __slots__ = ()
    encode = isascii = __len__ = __str__ = __repr__ = Loud.__iter__


class LoudInt(int):
    __int__ = __index__ = __repr__ = __str__ = Loud.__iter__


class LoudDeque(collections.deque):
    __iter__ = Loud.__iter__


class Meta(type):
    def __getattribute__(cls, name):
        raise RuntimeError("no")

    def __hash__(cls):
        return 1

    def __eq__(cls, other):
        return cls is other


class MetaHash(type):
    def __hash__(cls):
        raise RuntimeError("no")


LoudClass = Meta("LoudClass", (), {})
LoudHash = MetaHash("LoudHash", (), {})

LOUD = [
    (lambda: Loud(), marker(f"{__name__}.Loud", "no rule for this type")),
    (lambda: LoudList([1, 2]), [1, 2]),
    (lambda: LoudDict(a=1), {"a": 1}),
    (lambda: LoudText("a"), "a"),
    (lambda: LoudInt(3), 3),
    (lambda: LoudDeque([1]), marker(f"{__name__}.LoudDeque", "conversion raised RuntimeError", length=1)),
    (lambda: LoudClass(), marker(f"{__name__}.LoudClass", "no rule for this type")),
    (lambda: LoudHash(), marker(f"{__name__}.LoudHash", "conversion raised RuntimeError")),
]


@pytest.mark.parametrize(("value", "expected"), LOUD)
def test_nothing_that_raises_gets_out(value, expected):
    assert written(EARLY, value()) == expected
    line_of(TEXT, value())
    for serializer in (EARLY, TEXT):
        column = serializer.convert_column("v", [1, value(), {"a": [value()]}], ConversionReport())
        assert column[0] == 1
        encode_record({"v": column})


def test_a_raising_value_does_not_take_its_record_with_it():
    assert written(EARLY, {"a": 1, "bad": LoudDeque([1]), "b": 2})["b"] == 2


def test_a_raising_key_is_a_marker():
    (key,) = written(EARLY, {Loud(): 1})
    assert json.loads(key) == marker(f"{__name__}.Loud", "no rule for this type")
    line_of(TEXT, {(Loud(),): 1})
    for serializer in (EARLY, TEXT):
        assert written(serializer, {LoudClass(): 1, "a": 2})["a"] == 2


def test_unknown_as_text_that_raises():
    as_text = Serializer(SerializationConfig(unknown=Unknown.str))
    assert written(as_text, Loud()) == marker(f"{__name__}.Loud", "conversion raised RuntimeError")


def test_a_column_that_cannot_be_read_names_the_field():
    with pytest.raises(ConversionError, match=r"'v'.*reading its rows raised RuntimeError"):
        EARLY.convert_column("v", Loud(), ConversionReport())
    assert EARLY.convert_column("v", LoudList([1, 2]), ConversionReport()) == [1, 2]


def test_names_of_types_and_fields_are_text_too():
    odd = type("Odd", (), {"__module__": "m\ud83d"})
    dtype = np.dtype([("\ud83d", "i4")])
    for serializer in (EARLY, TEXT, Serializer(SerializationConfig(max_elements=1))):
        line_of(serializer, [odd(), odd, {odd(): odd()}, np.zeros(2, dtype=dtype), dtype])
