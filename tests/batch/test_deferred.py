"""Values that are worked out when they are asked for: once, and of what is kept until then."""

import threading

import numpy as np
import pytest

from verl_rollout_dump import RolloutBatch, RolloutDumpCallback
from verl_rollout_dump.batch.deferred import Late, LateRows, late_rows, present


def test_a_late_value_is_worked_out_once_and_lets_its_sources_go():
    asked = []
    late = Late(lambda array: asked.append(1) or array[:2], np.ones(10))
    assert (late.nbytes, asked) == (80, [])
    assert late.value is late.value
    assert (late.nbytes, asked) == (16, [1])


def test_a_late_value_may_be_none():
    asked = []
    late = Late(lambda: asked.append(1))
    assert late.value is late.value is None
    assert asked == [1]


def test_rows_have_a_length_before_they_are_there():
    rows = late_rows(3, list, "abc")
    assert isinstance(rows, LateRows) and len(rows) == 3
    assert present(rows) == ["a", "b", "c"]
    assert present("ab") == "ab"


def test_a_tensor_of_another_device_is_read_at_once():
    torch = pytest.importorskip("torch")

    class Elsewhere(torch.Tensor):
        @property
        def device(self):
            return torch.device("cuda")

    assert late_rows(2, lambda tensor: 5, torch.ones(2).as_subclass(Elsewhere)) == 5


def test_a_complete_batch_has_nothing_late_in_it():
    batch = RolloutBatch(step=1, prompts=["p"], responses=["r"], scores=LateRows(1, list, (2,)))
    complete = batch.complete()
    assert complete.scores == [2] and complete.prompts is batch.prompts
    assert complete.complete() is complete


def letters(batch, mask, **node):
    """Dump token ids that spell letters; return on which thread the mask was asked for."""

    class Letters:
        def decode(self, ids, skip_special_tokens=True):
            return "".join(map(chr, ids))

    asked = []
    late = LateRows(len(mask), lambda: asked.append(threading.current_thread().name) or np.array(mask))
    with RolloutDumpCallback.from_config(node, tokenizer=Letters()) as callback:
        callback.on_rollout_end(RolloutBatch(response_mask=late, **batch))
    return asked, callback.report


BATCH = {"step": 1, "prompts": [""] * 3, "responses": np.array([[97, 98], [99, 0], [100, 0]]), "scores": [1, 2, 3]}


def test_a_late_mask_is_asked_for_by_the_thread_that_writes(tmp_path, read_strict):
    asked, report = letters(
        {**BATCH, "extras": {"n": [4, 5, 6]}}, [[1, 1], [0, 0], [1, 0]], path={"dir": str(tmp_path)}
    )
    records = read_strict(tmp_path / "1.jsonl")
    assert [(r["output"], r["score"], r["n"], r["step"]) for r in records] == [("ab", 1, 4, 1), ("d", 3, 6, 1)]
    assert asked == ["verl-rollout-dump"]
    assert (report.padding_rows, report.records_written) == (1, 2)


def test_a_late_mask_is_asked_for_at_once_where_it_decides_what_is_looked_at(tmp_path, read_strict):
    for number, more in enumerate(({"sampling": {"max_records": 1}}, {"extras": {"o": [{1}, {2}, {3}]}})):
        extras = {"extras": more.pop("extras", {})}
        asked, report = letters(
            {**BATCH, **extras}, [[1, 1], [0, 0], [1, 0]], path={"dir": str(tmp_path / str(number))}, **more
        )
        assert asked == ["MainThread"]
        assert report.padding_rows == 1
    assert [record["o"] for record in read_strict(tmp_path / "1/1.jsonl")] == [[1], [3]]


def test_a_batch_of_padding_alone_leaves_no_file(tmp_path):
    _, report = letters(BATCH, [[0, 0]] * 3, path={"dir": str(tmp_path)})
    assert not (tmp_path / "1.jsonl").exists()
    assert (report.padding_rows, report.empty_batches, report.steps_written, report.failures) == (3, 1, 0, {})


def test_a_late_mask_of_another_shape_costs_its_step(tmp_path):
    _, report = letters(BATCH, [[1], [1], [1]], path={"dir": str(tmp_path)})
    assert report.failures == {"write: BatchError": 1}
