"""Tensors of every dtype and layout, and what tensordict holds them in: what is written, by both strategies."""
# ruff: noqa: E501 (tables, a case a line)

from __future__ import annotations

import pytest
from conversion_checks import EARLY, TEXT, line_of, marker, rules_of, same, written

torch = pytest.importorskip("torch")
pytest.importorskip("tensordict")
from tensordict import NonTensorData, NonTensorStack, TensorDict, lazy_stack, tensorclass  # noqa: E402
from tensordict.utils import LinkedList  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@tensorclass
class Pair:
    first: torch.Tensor
    second: str


def jagged():
    return torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([3])], layout=torch.jagged)


def strided():
    return torch.nested.nested_tensor([torch.tensor([1.0, 2]), torch.tensor([3.0])])


def quantized():
    return torch.quantize_per_tensor(torch.tensor([0.1, 0.2]), 0.1, 0, torch.qint8)


def batch():
    return TensorDict(
        {
            "a": torch.arange(2),
            "b": NonTensorData({"x": 1}, batch_size=[2]),
            "s": NonTensorStack("a", "b"),
            "n": TensorDict({"q": torch.zeros(2)}, [2]),
        },
        batch_size=[2],
    )


META = marker("torch.Tensor", "a meta tensor, which has no data", shape=[2], dtype="torch.float32")
BITS = marker("torch.Tensor", "conversion raised TypeError", shape=[2], dtype="torch.bits8")

# name, value, what early_convert writes, what str_fallback writes
CASES = [
    ("0-d", lambda: [torch.tensor(True), torch.tensor(3), torch.tensor(0.1)], [True, 3, 0.1], ["tensor(True)", "tensor(3)", "tensor(0.1)"]),
    ("integers", lambda: [torch.tensor([1], dtype=getattr(torch, name)) for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")], [[1]] * 8, ["tensor([1])"] * 8),
    ("float32", lambda: torch.tensor([[0.1, float("nan")]]), [[0.1, None]], "tensor([[0.1, nan]])"),
    ("float16", lambda: torch.tensor([0.1], dtype=torch.float16), [0.1], "tensor([0.1])"),
    ("float64", lambda: torch.tensor([0.1], dtype=torch.float64), [0.1], "tensor([0.1])"),
    ("bfloat16", lambda: torch.tensor([0.5, 0.1, float("inf")], dtype=torch.bfloat16), [0.5, 0.10009765625, None], "tensor([0.5, 0.10009765625, inf])"),
    ("float8", lambda: [torch.tensor([0.1], dtype=torch.float8_e4m3fn), torch.tensor([0.1], dtype=torch.float8_e5m2)], [[0.1015625], [0.09375]], ["tensor([0.1015625])", "tensor([0.09375])"]),
    ("complex", lambda: [torch.tensor([1 + 2j]), torch.tensor([1 + 2j]).conj()], [[{"$complex": [1.0, 2.0]}], [{"$complex": [1.0, -2.0]}]], ["tensor([(1+2j)])", "tensor([(1-2j)])"]),
    ("complex32", lambda: torch.ones(1, dtype=torch.complex32), [{"$complex": [1.0, 0.0]}], "tensor([(1+0j)])"),
    ("empty", lambda: [torch.zeros(0), torch.zeros(0, 3), torch.zeros(2, 0)], [[], [], [[], []]], ["tensor([])", "tensor([])", "tensor([[], []])"]),
    ("gradient", lambda: torch.tensor(2.0, requires_grad=True) * 2, 4.0, "tensor(4.0)"),
    ("parameter", lambda: torch.nn.Parameter(torch.ones(1)), [1.0], "tensor([1.0])"),
    ("non-contiguous", lambda: torch.arange(6).reshape(2, 3).t()[::2], [[0, 3], [2, 5]], "tensor([[0, 3], [2, 5]])"),
    ("jagged", jagged, [[1, 2], [3]], "nested_tensor([tensor([1, 2]), tensor([3])])"),
    ("strided nested", strided, [[1.0, 2.0], [3.0]], "nested_tensor([tensor([1.0, 2.0]), tensor([3.0])])"),
    ("sparse", lambda: [torch.eye(2).to_sparse(), torch.eye(2).to_sparse_csr()], [[[1.0, 0.0], [0.0, 1.0]]] * 2, ["tensor([[1.0, 0.0], [0.0, 1.0]])"] * 2),
    ("quantized", quantized, [0.1, 0.2], "tensor([0.1, 0.2])"),
    ("meta", lambda: torch.zeros(2, device="meta"), META, "tensor(..., device='meta', size=(2,))"),
    ("no numbers", lambda: torch.zeros(2, dtype=torch.bits8), BITS, BITS),
    ("Size", lambda: torch.Size([1, 2]), [1, 2], [1, 2]),
    ("names", lambda: [torch.float32, torch.device("cpu"), torch.strided], ["torch.float32", "cpu", "torch.strided"], ["torch.float32", "cpu", "torch.strided"]),
    ("NonTensorData", lambda: NonTensorData({"a": [1]}), {"a": [1]}, "NonTensorData(data={'a': [1]}, batch_size=torch.Size([]), device=None)"),
    ("LinkedList", lambda: LinkedList([1, "a"], td=batch()), [1, "a"], [1, "a"]),
]  # fmt: skip


@pytest.mark.parametrize(("value", "early", "text"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_value(value, early, text):
    assert same(written(EARLY, value()), early)
    assert same(written(TEXT, value()), text)


TENSORDICTS = [
    ("TensorDict", batch, {"a": [0, 1], "b": {"x": 1}, "s": ["a", "b"], "n": {"q": [0.0, 0.0]}}),
    ("NonTensorStack", lambda: NonTensorStack("a", {"b": 1}), ["a", {"b": 1}]),
    ("lazy stack", lambda: lazy_stack([TensorDict({"a": torch.zeros(2)}), TensorDict({"a": torch.zeros(1)})]), [{"a": [0.0, 0.0]}, {"a": [0.0]}]),
    ("tensorclass", lambda: Pair(torch.zeros(2), "x", batch_size=[2]), {"first": [0.0, 0.0], "second": "x"}),
]  # fmt: skip


@pytest.mark.parametrize(("value", "early"), [case[1:] for case in TENSORDICTS], ids=[case[0] for case in TENSORDICTS])
def test_tensordict(value, early):
    assert same(written(EARLY, value()), early)
    assert isinstance(written(TEXT, value()), str)


def test_what_has_no_data_is_warned_about():
    for tensor in (torch.zeros(2, device="meta"), torch.sparse_coo_tensor(size=(10**6, 10**6))):
        assert "not_written" in rules_of(line_of(EARLY, tensor)[1])


def test_text_of_a_long_tensor_is_whole():
    # SDXorg/pysd#197
    assert written(TEXT, torch.arange(2000)) == f"tensor({list(range(2000))})"


def test_a_column_is_a_row_per_record():
    from verl_rollout_dump.serialization import ConversionReport

    for column, rows in (
        (jagged(), [[1, 2], [3]]),
        (strided(), [[1.0, 2.0], [3.0]]),
        (torch.eye(2), [[1.0, 0.0], [0.0, 1.0]]),
    ):
        assert EARLY.convert_column("v", column, ConversionReport()) == rows
    assert EARLY.convert_column("v", NonTensorData(3, batch_size=[2]), ConversionReport()) == [3, 3]
    assert EARLY.convert_column("v", NonTensorStack("a", "b"), ConversionReport()) == ["a", "b"]
    assert len(EARLY.convert_column("v", torch.zeros(2, device="meta"), ConversionReport())) == 2
    assert TEXT.convert_column("v", torch.tensor([0.5, 1.0]), ConversionReport()) == ["tensor(0.5)", "tensor(1.0)"]
