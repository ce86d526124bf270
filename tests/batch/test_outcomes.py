"""Outcomes of rollouts by their loss masks."""

import numpy as np
import pytest

from verl_rollout_dump.batch.outcomes import outcomes_of_masks

ROWS = [[1, 1, 0], [0, 0, 0], [0, 0, 1]]


def test_a_mask_that_is_zero_throughout_is_a_rejection():
    assert outcomes_of_masks(np.array(ROWS)) == ["trained", "rejected", "trained"]
    assert outcomes_of_masks(np.zeros((2, 0))) == ["rejected", "rejected"]


@pytest.mark.parametrize("dtype", ["int64", "bool", "float32"])
def test_tensors_padded_and_jagged(dtype):
    torch = pytest.importorskip("torch")
    padded = torch.tensor(ROWS, dtype=getattr(torch, dtype))
    jagged = torch.nested.as_nested_tensor([padded[0], padded[1][:1], padded[2]], layout=torch.jagged)
    assert outcomes_of_masks(padded) == ["trained", "rejected", "trained"]
    assert outcomes_of_masks(jagged) == ["trained", "rejected", "trained"]
