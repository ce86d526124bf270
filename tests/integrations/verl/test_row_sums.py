"""Scores: each row's sum as torch gives it, bit for bit, however it is come by."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("verl")
pytestmark = pytest.mark.verl

from verl_rollout_dump import native  # noqa: E402
from verl_rollout_dump.integrations.verl import v0 as verl_v0  # noqa: E402
from verl_rollout_dump.integrations.verl.v0 import row_sums  # noqa: E402


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize(
    "shape", [(0, 5), (3, 0), (1, 1), (64, 512), (1, 32767), (3, 32768), (257, 3001), (5, 20000), (40_000, 2)]
)
def test_the_sum_of_every_row_is_that_of_torch(shape, dtype):
    values = (torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 100).to(dtype)
    for rows in (values, values.T.contiguous().T):
        assert torch.equal(row_sums(rows), rows.sum(-1))
        assert row_sums(rows).dtype == rows.sum(-1).dtype


@pytest.mark.parametrize("lone", [1.5, -0.0, 1e-45, float("inf"), float("nan"), -3.4e38])
def test_a_number_that_stands_alone_is_the_sum_and_torch_is_not_asked(lone, monkeypatch):
    values = torch.zeros(40, 100)
    values[torch.arange(1, 40), torch.arange(1, 40) * 2] = lone
    expected = values.sum(-1)
    if native.library is not None:
        monkeypatch.setattr(torch.Tensor, "sum", None)
    sums = row_sums(values)
    assert torch.equal(sums.view(torch.int32), expected.view(torch.int32))
    assert sums.dtype == torch.float32


def test_a_large_tensor_is_left_to_all_threads(monkeypatch):
    values = torch.ones(4, 10)
    monkeypatch.setattr(verl_v0, "WORTH_SHARING", 39)
    monkeypatch.setattr(torch, "cat", None)
    assert row_sums(values).tolist() == [10.0] * 4
