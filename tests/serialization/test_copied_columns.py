"""Columns copied now and converted later: which are, and that nobody can change them meanwhile."""

import copy

import numpy as np
import pytest

from verl_rollout_dump.config.schema import SerializationConfig, Strategy
from verl_rollout_dump.serialization import ConversionReport, Serializer

EARLY = Serializer(SerializationConfig())
STRICT = Serializer(SerializationConfig(max_depth=3, max_elements=3))


class Opaque:
    pass


class Names(list):
    def __iter__(self):
        return iter(["own", "ways"])


def convert(column, serializer=EARLY):
    report = ConversionReport()
    return serializer.convert_column("v", column, report), report.as_list()


@pytest.mark.parametrize(
    "column",
    [
        [1.5] * 1000,
        ("a", "b"),
        [None, True],
        np.arange(6).reshape(3, 2),
        np.arange(6)[::-2],
        np.array([1, 2], np.float16),
        np.array([1, 2], ">i4"),
        np.array(["a", "b"]),
        np.array(["2020-01-01"], "datetime64[D]"),
        np.array([(1, 2.0)], [("a", "i4"), ("b", "f4")]),
        np.array(["a", {"b": [1]}], dtype=object),
        [{"a": np.float32(1), "b": [1, "x"]}] * 4,
        [{"a": {"b": {}}}, {"a": [{"c": [[]]}], "d": 1}, [{"e": {"f": 2}}, 3], None, 4],
        [[1], [], [{"a": None}]],
        [],
    ],
    ids=str,
)
def test_a_plain_column_is_copied_and_converts_to_the_same(column):
    expected = convert(copy.deepcopy(column))
    copied = EARLY.copy_column(column)
    if isinstance(column, np.ndarray):
        column[...] = np.zeros((), column.dtype)
    else:
        scramble(list(column))
    assert convert(copied) == expected


def scramble(values):
    for value in values:
        if isinstance(value, (dict, list)):
            scramble(value.values() if isinstance(value, dict) else value)
            value.clear()


def test_values_are_not_mixed_up():
    rows = [{"a": [1], "b": {"c": 2}}, [3, {"d": 4}], {"e": [5, 6]}, 7, [[8], 9]]
    assert EARLY.copy_column(rows) == rows


CYCLE = [1]
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    "column",
    [
        [Opaque()],
        [{"a": Opaque()}],
        [{1, 2}],
        [{(1, 2): 3}],
        Names([1]),
        np.ma.array([1]),
        np.array([([1],)], [("a", "O")]),
        [np.arange(2)],
        range(3),
        [CYCLE],
    ],
    ids=lambda column: type(column).__name__,
)
def test_what_only_its_conversion_can_copy_is_converted_at_once(column):
    assert EARLY.copy_column(column) is None


def test_what_is_cut_is_converted_at_once():
    assert STRICT.copy_column([[1, 2, 3]]) == [[1, 2, 3]]
    assert STRICT.copy_column([[1, 2, 3, 4]]) is None
    assert STRICT.copy_column([{"a": [[]]}]) == [{"a": [[]]}]
    assert STRICT.copy_column([{"a": [[[]]]}]) is None


def test_numbers_that_become_text_under_str_fallback_are_copied_as_numbers():
    serializer = Serializer(SerializationConfig(strategy=Strategy.str_fallback))
    copied = serializer.copy_column(np.arange(2))
    assert convert(copied, serializer) == convert(np.arange(2), serializer)
    assert convert(copied, serializer)[0] == ["0", "1"]


def test_tensors_are_copied():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([[1.0, 2.0]], requires_grad=True)
    copied = EARLY.copy_column(tensor)
    tensor.detach().zero_()
    assert convert(copied)[0] == [[1.0, 2.0]]
    for other in (torch.zeros(2, device="meta"), torch.nested.nested_tensor([torch.ones(1)], layout=torch.jagged)):
        assert EARLY.copy_column(other) is None
