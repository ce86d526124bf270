"""Which part of each row of ids is real, for every form in which trainers hold them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verl_rollout_dump import native
from verl_rollout_dump.batch.rollout_batch import BatchError
from verl_rollout_dump.dump.token_rows import Chunk, TokenRows, are_token_ids, bounds, token_rows


def rows(tokens):
    numbers, starts, stops = tokens.of(Chunk(0, len(tokens)))
    return [row[a:b].tolist() for row, a, b in zip(numbers, starts, stops, strict=True)]


def test_bounds_are_the_outermost_real_tokens():
    mask = np.array([[0, 1, 1], [1, 0, 1], [0, 0, 0], [1, 1, 0]])
    starts, stops = bounds(mask)
    assert list(zip(starts.tolist(), stops.tolist(), strict=True)) == [(1, 3), (0, 3), (0, 0), (0, 2)]
    assert [part.tolist() for part in bounds(np.zeros((2, 0)))] == [[0, 0], [0, 0]]


MASKS = st.integers(0, 300).flatmap(
    lambda length: st.lists(st.lists(st.sampled_from([0, 0, 0, 1]), min_size=length, max_size=length), min_size=1)
)


@pytest.mark.parametrize("library", [native.library, None], ids=["c", "numpy"])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, ">i4", np.float32])
@settings(max_examples=40, deadline=None)
@given(rows=MASKS, places=st.data())
def test_bounds_of_any_mask(library, dtype, rows, places):
    mask = np.array(rows, dtype).reshape(len(rows), -1)
    if mask.size:
        mask[:, places.draw(st.integers(0, mask.shape[1] - 1)) :] = 0
    expected = [
        (int(np.flatnonzero(row)[0]), int(np.flatnonzero(row)[-1]) + 1) if row.any() else (0, 0) for row in mask
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "library", library)
        for given in (mask, np.asfortranarray(mask)):
            starts, stops = bounds(given)
            assert list(zip(starts.tolist(), stops.tolist(), strict=True)) == expected


@pytest.mark.parametrize("library", [native.library, None], ids=["c", "numpy"])
def test_a_float_mask_of_negative_zeros_is_zero(library, monkeypatch):
    monkeypatch.setattr(native, "library", library)
    assert [part.tolist() for part in bounds(np.array([[-0.0, 1.0, -0.0]]))] == [[1], [2]]


def test_padded_array_with_and_without_a_mask():
    ids = np.array([[9, 1, 2], [3, 9, 9]])
    assert rows(token_rows("input", ids, np.array([[0, 1, 1], [1, 0, 0]]))) == [[1, 2], [3]]
    assert rows(token_rows("input", ids, None)) == [[9, 1, 2], [3, 9, 9]]


def test_lists_of_ids_and_chosen_rows():
    tokens = token_rows("input", [[1, 2], [], [3, 4, 5]], None)
    assert (len(tokens), tokens.longest) == (3, 3)
    assert rows(tokens) == [[1, 2], [], [3, 4, 5]]
    assert rows(tokens.take([2, 0])) == [[3, 4, 5], [1, 2]]


def test_tensors_padded_jagged_and_strided():
    torch = pytest.importorskip("torch")
    ids = torch.tensor([[0, 1], [2, 3]])
    assert rows(token_rows("input", ids, torch.tensor([[False, True], [True, True]]))) == [[1], [2, 3]]
    for layout in (torch.jagged, torch.strided):
        nested = torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([3])], layout=layout)
        assert are_token_ids(nested)
        assert rows(token_rows("input", nested, None)) == [[1, 2], [3]]


def test_memory_on_the_host_is_shared():
    ids = np.zeros((2, 3), dtype=np.int64)
    assert token_rows("input", ids, None).numbers is ids


def test_a_mask_of_another_shape_is_refused():
    with pytest.raises(BatchError, match=r"output is of shape \(1, 2\) and its mask of \(1, 3\)"):
        token_rows("output", np.zeros((1, 2), int), np.zeros((1, 3), int))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.zeros((2, 3), np.int32), True),
        (np.zeros((2, 3), np.uint8), True),
        (np.zeros((2, 3)), False),
        (np.zeros(3, np.int64), False),
        (np.zeros((2, 3), bool), False),
        ([[1, 2], [3]], True),
        ([[], [3]], True),
        ([np.array([1]), np.array([2, 3])], True),
        (["a", "b"], False),
        ([[{"role": "user"}]], False),
        ([[True]], False),
        ([], False),
        (None, False),
    ],
)
def test_what_counts_as_token_ids(values, expected):
    assert are_token_ids(values) is expected


def test_a_jagged_tensor_is_shared_and_chosen_rows_are_found_in_it():
    torch = pytest.importorskip("torch")
    nested = torch.nested.nested_tensor(
        [torch.tensor([1, 2]), torch.tensor([3]), torch.tensor([4, 5])], layout=torch.jagged
    )
    tokens = token_rows("input", nested, None)
    assert tokens.numbers.ctypes.data == nested.values().data_ptr()
    assert (len(tokens), tokens.longest) == (3, 2)
    assert rows(tokens.take([2, 1])) == [[4, 5], [3]]


def test_a_jagged_tensor_with_gaps_is_read_row_by_row():
    torch = pytest.importorskip("torch")
    padded = torch.arange(8).reshape(2, 4)
    with_gaps = torch.nested.narrow(padded, 1, torch.tensor([1, 0]), torch.tensor([2, 3]), layout=torch.jagged)
    assert rows(token_rows("input", with_gaps, None)) == [[1, 2], [4, 5, 6]]


def test_fields_that_share_a_mask_look_into_it_once():
    mask = np.array([[0, 1, 1], [1, 1, 0]])
    ids, log_probs = TokenRows(np.arange(6).reshape(2, 3), mask), TokenRows(np.ones((2, 3)), mask)
    chunk = Chunk(0, 2)
    (_, *first), (_, *second) = ids.of(chunk), log_probs.of(chunk)
    assert first[0] is second[0] and first[1] is second[1]
    (_, starts, _) = ids.take([1]).of(chunk)
    assert starts.tolist() == [0]
