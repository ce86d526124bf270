"""What the config decides: NaN, unknown types, limits; cycles; and that nothing is shared."""

from __future__ import annotations

import collections
import copy
import threading

import numpy as np
import pytest
from conversion_checks import EARLY, TEXT, line_of, marker, rules_of, written

from verl_rollout_dump.config.schema import NonFinite, SerializationConfig, Strategy, Unknown
from verl_rollout_dump.serialization import (
    ConversionError,
    ConversionReport,
    Serializer,
)

torch = pytest.importorskip("torch")

BOTH = pytest.mark.parametrize("strategy", list(Strategy))


class Opaque:
    pass


def test_unknown_objects():
    # verl-project/verl#7588
    opaque = marker(f"{__name__}.Opaque", "no rule for this type")
    assert written(EARLY, {"o": Opaque(), "n": 1}) == {"o": opaque, "n": 1}
    as_text = Serializer(SerializationConfig(unknown=Unknown.str))
    assert written(as_text, Opaque()) == f"<{__name__}.Opaque object>"
    assert written(TEXT, Opaque()) == f"<{__name__}.Opaque object>"


@BOTH
def test_unknown_error_names_where_and_what_instead(strategy):
    serializer = Serializer(SerializationConfig(strategy=strategy, unknown=Unknown.error))
    with pytest.raises(ConversionError) as caught:
        serializer.convert_column("info", [{"a": 1}, {"a": [Opaque()]}], ConversionReport())
    error = caught.value
    assert (error.field, error.path, error.record, error.type) == ("info", "a[]", 1, f"{__name__}.Opaque")
    assert isinstance(error, ValueError)
    for part in ("'info'", "a[]", "record 1", "Opaque", "return numbers, text, lists and dicts"):
        assert part in str(error)
    assert str(copy.copy(error)) == str(error)
    # What a rule knows is no error, only what none knows.
    serializer.convert_value("info", [np.int64(1), {1, 2}, b"x"], ConversionReport())


NAN = float("nan")
NON_FINITE = [
    ("python", [1.0, NAN], 1),
    ("float64 column", np.array([1.0, 2.0, np.inf]), 2),
    ("float32 rows", np.array([[1, 2], [3, -np.inf]], dtype="f4"), 1),
    ("scalars", [np.float32(1), np.float32("nan")], 1),
    ("nested", [{"a": 1.0}, {"a": 2.0}, {"a": NAN}], 2),
    ("lists", [[1.0], [], [2.0, NAN]], 2),
    ("tensor", torch.tensor([1.0, NAN]), 1),
    ("bfloat16", torch.tensor([1.0, NAN], dtype=torch.bfloat16), 1),
]


@pytest.mark.parametrize(("column", "record"), [case[1:] for case in NON_FINITE], ids=[case[0] for case in NON_FINITE])
def test_the_first_record_with_nan_is_known(column, record):
    report = ConversionReport()
    EARLY.convert_column("v", column, report)
    (row,) = [row for row in report.as_list() if row["rule"] == "non_finite_null"]
    assert (row["count"], row["first_record"], row["lossy"]) == (1, record, True)
    with pytest.raises(ConversionError) as caught:
        serializer = Serializer(SerializationConfig(non_finite=NonFinite.error))
        serializer.convert_column("v", column, ConversionReport())
    assert caught.value.record == record


def test_non_finite_as_text():
    serializer = Serializer(SerializationConfig(non_finite=NonFinite.string))
    value = {"r": NAN, "p": [float("inf"), -np.inf], "a": np.array([np.nan, 1.0]), "t": torch.tensor(-float("inf"))}
    assert written(serializer, value) == {
        "r": "NaN",
        "p": ["Infinity", "-Infinity"],
        "a": ["NaN", 1.0],
        "t": "-Infinity",
    }


def test_max_chars():
    serializer = Serializer(SerializationConfig(max_chars=3))
    long = marker("str", "longer than max_chars 3", length=5, text="äbc")
    assert written(serializer, ["abc", "äbcde"]) == ["abc", long]
    assert serializer.convert_column("v", ["a", "äbcde"], ConversionReport()) == ["a", long]
    assert written(serializer, b"abcd") == marker("bytes", "longer than max_chars 3", length=4)
    assert written(serializer, {"a long key": "abc"}) == {"a long key": "abc"}
    texts = Serializer(SerializationConfig(strategy=Strategy.str_fallback, max_chars=3))
    assert written(texts, {5}) == "{5}"
    assert written(texts, {50}) == marker("set", "longer than max_chars 3", length=4, text="{50")


@BOTH
def test_max_elements(strategy):
    serializer = Serializer(SerializationConfig(strategy=strategy, max_elements=2))
    reason = "more than max_elements 2"
    assert written(serializer, [1, 2]) == [1, 2]
    assert written(serializer, [1, 2, 3]) == marker("list", reason, length=3)
    assert written(serializer, {"a": 1, "b": 2, "c": 3}) == marker("dict", reason, length=3)
    assert written(serializer, {1, 2, 3}) == marker("set", reason, length=3)
    assert written(serializer, np.zeros((2, 2))) == marker("numpy.ndarray", reason, shape=[2, 2], dtype="float64")
    assert written(serializer, torch.zeros(3)) == marker("torch.Tensor", reason, shape=[3], dtype="torch.float32")
    # The limit is for the values of the records, not for the number of records.
    assert serializer.convert_column("v", [1, 2, 3], ConversionReport()) == [1, 2, 3]
    rows = serializer.convert_column("v", np.zeros((3, 3)), ConversionReport())
    assert rows == [marker("numpy.ndarray", reason, shape=[3], dtype="float64")] * 3


def deep(levels):
    return [deep(levels - 1)] if levels > 1 else []


@BOTH
def test_max_depth(strategy):
    serializer = Serializer(SerializationConfig(strategy=strategy, max_depth=2))
    cut = marker("list", "nested deeper than max_depth 2", length=1)
    assert written(serializer, [[1]]) == [[1]]
    assert written(serializer, [[[1]]]) == [[cut]]
    assert serializer.convert_column("v", [[[[1]]]], ConversionReport()) == [[[cut]]]


def test_arrays_count_their_axes_as_depth():
    serializer = Serializer(SerializationConfig(max_depth=2))
    assert written(serializer, np.zeros((1, 1))) == [[0.0]]
    cut = marker("numpy.ndarray", "nested deeper than max_depth 2", shape=[1, 1, 1], dtype="float64")
    assert written(serializer, np.zeros((1, 1, 1))) == cut
    assert serializer.convert_column("v", np.zeros((1, 1, 1)), ConversionReport()) == [[[0.0]]]


@BOTH
def test_the_deepest_allowed_value_is_still_a_line(strategy):
    serializer = Serializer(SerializationConfig(strategy=strategy, max_depth=200))
    assert "too_deep" not in rules_of(line_of(serializer, deep(200))[1])
    line_of(serializer, deep(900))
    line_of(serializer, [deep(199), np.zeros((1,) * 32)])


def test_cycles_and_shared_values():
    # google/adk-python#5414, BerriAI/litellm#31427
    cycle = {"a": 1}
    cycle["self"] = cycle
    shared = {"k": 1}
    array = [1]
    array.append({"up": array})
    for serializer in (EARLY, TEXT):
        assert written(serializer, cycle) == {"a": 1, "self": "<circular>"}
        assert written(serializer, array) == [1, {"up": "<circular>"}]
        both = {"a": shared, "b": shared, "c": [shared, shared]}
        assert written(serializer, both) == {"a": {"k": 1}, "b": {"k": 1}, "c": [{"k": 1}, {"k": 1}]}
        assert serializer.convert_column("v", [cycle, cycle, shared, shared], ConversionReport()) == [
            {"a": 1, "self": "<circular>"},
            {"a": 1, "self": "<circular>"},
            {"k": 1},
            {"k": 1},
        ]


def test_results_share_nothing_with_the_input():
    rows = [{"a": [1, 2], "b": {"c": "x"}}, {"a": [3], "b": {"c": "y"}}]
    plain, array, tensor = [[1, 2], [3, 4]], np.arange(4.0).reshape(2, 2), torch.zeros(2, 2)
    columns = [rows, plain, array, tensor, [1, 2], ["a", "b"], [array, array]]
    before = [EARLY.convert_column("v", column, ConversionReport()) for column in columns]
    kept = copy.deepcopy(before)
    rows[0]["a"].append(9)
    rows[1]["b"]["c"] = "changed"
    plain[0].append(9)
    array[:] = -1.0
    tensor[:] = -1.0
    columns[4].append(3)
    columns[5][0] = "changed"
    assert before == kept


@BOTH
def test_columns_of_all_holders(strategy):
    pd = pytest.importorskip("pandas")
    serializer = Serializer(SerializationConfig(strategy=strategy))
    natives = [0.5, 1.0]
    holders = [natives, tuple(natives), np.array(natives), np.array(natives, dtype=object), pd.Series(natives)]
    holders += [collections.deque(natives), pd.Series(natives, index=["a", "b"]), pd.array(natives)]
    for column in holders:
        assert serializer.convert_column("v", column, ConversionReport()) == natives
    for empty in ([], np.zeros(0), np.zeros((0, 3)), torch.zeros(0, 2), np.zeros(0, dtype=object)):
        assert serializer.convert_column("v", empty, ConversionReport()) == []


def test_one_serializer_for_several_threads():
    rows = [{"a": np.int64(row), "b": [np.float32(row), {"c": {row}}]} for row in range(200)]
    expected = EARLY.convert_column("v", rows, ConversionReport())
    results = []

    def work():
        serializer_results = [EARLY.convert_column("v", rows, ConversionReport()) for _ in range(5)]
        results.append(all(result == expected for result in serializer_results))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 4
