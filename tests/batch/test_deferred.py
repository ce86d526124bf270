"""Deferred values: computed once, when they are first read."""

import threading

import numpy as np
import pytest

from verl_rollout_dump import RolloutBatch, RolloutDumpCallback
from verl_rollout_dump.batch.deferred import Deferred, DeferredRows, deferred_rows, resolved


def test_a_deferred_value_is_computed_once_and_releases_its_sources():
    computed = []
    deferred = Deferred(lambda array: computed.append(1) or array[:2], np.ones(10))
    assert (deferred.nbytes, computed) == (80, [])
    assert deferred.value is deferred.value
    assert (deferred.nbytes, computed) == (16, [1])


def test_a_deferred_value_may_be_none():
    computed = []
    deferred = Deferred(lambda: computed.append(1))
    assert deferred.value is deferred.value is None
    assert computed == [1]


def test_rows_have_a_length_before_they_are_there():
    rows = deferred_rows(3, list, "abc")
    assert isinstance(rows, DeferredRows) and len(rows) == 3
    assert resolved(rows) == ["a", "b", "c"]
    assert resolved("ab") == "ab"


def test_a_tensor_of_another_device_is_read_at_once():
    torch = pytest.importorskip("torch")

    class Elsewhere(torch.Tensor):
        @property
        def device(self):
            return torch.device("cuda")

    assert deferred_rows(2, lambda tensor: 5, torch.ones(2).as_subclass(Elsewhere)) == 5


def test_a_complete_batch_has_no_deferred_values():
    batch = RolloutBatch(step=1, prompts=["p"], responses=["r"], scores=DeferredRows(1, list, (2,)))
    complete = batch.complete()
    assert complete.scores == [2] and complete.prompts is batch.prompts
    assert complete.complete() is complete


def letters(batch, mask, **node):
    """Dump token ids that spell letters; return on which thread the mask was computed for."""

    class Letters:
        def decode(self, ids, skip_special_tokens=True):
            return "".join(map(chr, ids))

    computed = []
    deferred = DeferredRows(len(mask), lambda: computed.append(threading.current_thread().name) or np.array(mask))
    with RolloutDumpCallback.from_config(node, tokenizer=Letters()) as callback:
        callback.on_rollout_end(RolloutBatch(response_mask=deferred, **batch))
    return computed, callback.report


BATCH = {"step": 1, "prompts": [""] * 3, "responses": np.array([[97, 98], [99, 0], [100, 0]]), "scores": [1, 2, 3]}


def test_a_deferred_mask_is_computed_by_the_writing_thread(tmp_path, read_strict):
    computed, report = letters(
        {**BATCH, "extras": {"n": [4, 5, 6]}}, [[1, 1], [0, 0], [1, 0]], path={"dir": str(tmp_path)}
    )
    records = read_strict(tmp_path / "1.jsonl")
    wanted = [("ab", 1, 4, 1), ("", 2, 5, 1), ("d", 3, 6, 1)]
    assert [(r["output"], r["score"], r["n"], r["step"]) for r in records] == wanted
    assert computed == ["verl-rollout-dump"]
    assert report.records_written == 3


def test_a_deferred_mask_of_another_shape_costs_its_column(tmp_path, read_strict):
    _, report = letters(BATCH, [[1], [1], [1]], path={"dir": str(tmp_path)})
    assert (report.failures, report.fields) == ({}, {"output: unreadable": 1})
    assert [(r["output"], r["score"]) for r in read_strict(tmp_path / "1.jsonl")] == [(None, 1), (None, 2), (None, 3)]
