"""Columns taken now and converted later: which are, what they keep, and that nobody can change them meanwhile."""

import numpy as np
import pytest

from verl_rollout_dump.config.schema import SerializationConfig, Strategy
from verl_rollout_dump.serialization import ConversionReport, Serializer

EARLY = Serializer(SerializationConfig())


class Opaque:
    pass


class Names(list):
    def __iter__(self):
        return iter(["own", "ways"])


@pytest.mark.parametrize(
    ("column", "nbytes"),
    [
        ([1.5] * 1000, 1000 * (8 + 24)),
        (("a", "b"), 2 * (8 + 50)),
        ([None, True], 2 * (8 + 16)),
        (np.arange(6).reshape(3, 2), 48),
        (np.array([1, 2], np.float16), 4),
        (np.array(["a", {"b": [1]}], dtype=object), None),
        ([{"a": np.float32(1), "b": [1, "x"]}] * 4, None),
        ([[1], [], [{"a": None}]], None),
        ([], 0),
    ],
)
def test_plain_columns_are_taken(column, nbytes):
    taken = EARLY.take_column("v", column)
    expected = EARLY.convert_column("v", column, ConversionReport())
    assert taken.convert(ConversionReport()) == expected
    assert nbytes is None or taken.nbytes == nbytes


@pytest.mark.parametrize(
    "column",
    [[Opaque()], [{"a": Opaque()}], [{1, 2}], Names([1]), np.array(["a"]), np.ma.array([1]), [np.arange(2)], range(3)],
    ids=lambda column: type(column).__name__,
)
def test_what_may_still_change_is_converted_at_once(column):
    assert EARLY.take_column("v", column) is None


def test_numbers_become_text_at_once_under_str_fallback():
    assert Serializer(SerializationConfig(strategy=Strategy.str_fallback)).take_column("v", np.arange(2)) is None


def test_tensors_are_copied():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([[1.0, 2.0]], requires_grad=True)
    taken = EARLY.take_column("v", tensor)
    tensor.detach().zero_()
    assert taken.convert(ConversionReport()) == [[1.0, 2.0]]
    for other in (torch.zeros(2, device="meta"), torch.nested.nested_tensor([torch.ones(1)], layout=torch.jagged)):
        assert EARLY.take_column("v", other) is None
    assert EARLY.take_column("v", torch.zeros(2, dtype=torch.bits8)) is None  # torch raises: no numbers to show


def test_counts_are_those_of_each_conversion():
    taken = EARLY.take_column("v", [np.float32(1), np.float32(2)])
    report = ConversionReport()
    assert report.as_list() == []
    taken.convert(report)
    expected = ConversionReport()
    EARLY.convert_column("v", [np.float32(1), np.float32(2)], expected)
    assert report.as_list() == expected.as_list() != []
