"""Keys that are no text, that collide, that look like a marker's; and markers decoded again."""

from __future__ import annotations

import numpy as np
import pytest
from conversion_checks import EARLY, TEXT, line_of, read_strictly, written

from verl_rollout_dump.config.schema import NonFinite, SerializationConfig, Strategy
from verl_rollout_dump.serialization import (
    ConversionError,
    ConversionReport,
    Serializer,
    decode_markers,
)

BOTH = pytest.mark.parametrize("strategy", list(Strategy))
NAN = float("nan")


def test_keys():
    # danforthcenter/plantcv#1938, python/cpython#119984
    value = {np.int64(2): "a", (1, 2): "b", 0.5: "c", True: "d", None: "e", np.float32(0.1): "f", b"x": "g", NAN: "h"}
    names = ["2", "(1, 2)", "0.5", "true", "null", "0.1", '{"$bytes":"eA=="}', "NaN"]
    assert list(written(EARLY, value)) == names
    assert list(written(TEXT, value)) == [*names[:6], "b'x'", "NaN"]
    with pytest.raises(ConversionError):
        Serializer(SerializationConfig(non_finite=NonFinite.error)).convert_value("v", value, ConversionReport())


@BOTH
def test_keys_that_collide_lose_nothing(strategy):
    serializer = Serializer(SerializationConfig(strategy=strategy))
    line, report = line_of(serializer, {1: "a", "1": "b", "1__2": "c", chr(0xD83D): "d", chr(0xD83E): "e"})
    assert read_strictly(line)["v"] == {"1": "a", "1__2": "b", "1__2__2": "c", "\ufffd": "d", "\ufffd__2": "e"}
    (row,) = [row for row in report.as_list() if row["rule"] == "key_collision"]
    assert (row["count"], row["lossy"]) == (3, True)


RESERVED = [
    ({"$bytes": "eA=="}, {"$$bytes": "eA=="}),
    ({"$$bytes": 1}, {"$$$bytes": 1}),
    ({"$marker": {"$int": "0x1"}}, {"$$marker": {"$$int": "0x1"}}),
    ({"$bytes": 1, "x": 2}, {"$bytes": 1, "x": 2}),
    ({"$other": 1}, {"$other": 1}),
]


@pytest.mark.parametrize(("value", "expected"), RESERVED)
def test_a_users_dict_is_never_taken_for_a_marker(value, expected):
    line, _ = line_of(EARLY, value)
    read = read_strictly(line)["v"]
    assert read == expected
    assert decode_markers(read) == value
    assert EARLY.convert_column("v", [value, value], ConversionReport()) == [expected, expected]


def test_markers_decode():
    value = {"b": [b"\xff", bytearray(b"x")], "i": [10**400, -(10**5000)], "c": 1 - 2j, "n": {"$bytes": b"y"}}
    assert decode_markers(written(EARLY, value)) == {**value, "b": [b"\xff", b"x"]}
    assert str(decode_markers({"$complex": [None, "Infinity"]})) == "(nan+infj)"
    for foreign in ({"$bytes": "not base64!"}, {"$bytes": 3}, {"$int": 3}, {"$complex": [1]}, {"$marker": {"a": 1}}):
        assert decode_markers(foreign) == foreign
