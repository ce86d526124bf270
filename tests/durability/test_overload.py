"""More than the disk takes: a bounded queue, in batches and in bytes; drops that are on record; measured waiting."""

import threading

import numpy as np
import pytest

from verl_rollout_dump.batch.deferred import DeferredRows
from verl_rollout_dump.config.schema import WhenFull
from verl_rollout_dump.dump.background import BackgroundDispatch, QueueFull
from verl_rollout_dump.dump.bounded_queue import PendingTasks
from verl_rollout_dump.dump.snapshot import StepSnapshot
from verl_rollout_dump.dump.snapshot_fields import (
    CopiedField,
    PendingTokenField,
    RepeatedField,
    TextField,
    TokenArrayField,
    ValuesField,
)
from verl_rollout_dump.dump.token_rows import TokenRows


@pytest.fixture
def gate():
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def held_up(open_dump, gate, batch):
    """A dump whose writing thread is held up in step 0 until the gate opens."""

    def make(**writer):
        callback = open_dump(writer=writer)
        started, write = threading.Event(), callback._started._write
        callback._started._write = lambda *a: (started.set(), gate.wait(30), write(*a))
        callback.on_rollout_end(batch(step=0))
        started.wait(30)
        return callback

    return make


def test_drops_are_counted_per_step_and_on_record(held_up, gate, batch, tmp_path, attempts_of):
    callback = held_up(max_pending=2, when_full="drop")
    for step in range(1, 8):
        callback.on_rollout_end(batch(step=step))
    gate.set()
    callback.close()
    assert callback.report.steps_dropped == [3, 4, 5, 6, 7]
    (attempt,) = attempts_of(tmp_path / "dump")
    assert (attempt["steps"], attempt["dropped"], attempt["failed"]) == ("0-2", "3-7", "")


def test_bytes_bound_the_queue_too(held_up, gate, batch):
    callback = held_up(max_pending=100, max_pending_bytes=3_000_000, when_full="drop")
    for step in range(1, 5):
        callback.on_rollout_end(batch(n=1, step=step, prompts=["x" * 1_000_000]))
    gate.set()
    callback.close()
    assert callback.report.steps_dropped == [3, 4]


def test_a_batch_that_never_fits_waits_alone(held_up, gate, batch):
    callback = held_up(max_pending_bytes=10, when_full="drop")
    callback.on_rollout_end(batch(step=1))
    callback.on_rollout_end(batch(step=2))
    gate.set()
    callback.close()
    assert callback.report.steps_dropped == [2]


def test_error_fails_the_step_in_its_own_call(held_up, batch):
    callback = held_up(max_pending=1, when_full="error")
    callback.on_rollout_end(batch(step=1))
    callback.on_rollout_end(batch(step=2))
    assert callback.report.steps_failed == [2]
    assert callback.report.failures == {"hand over: QueueFull": 1}


def test_waiting_is_measured(held_up, gate, batch):
    callback = held_up(max_pending=1)
    callback.on_rollout_end(batch(step=1))
    threading.Timer(0.3, gate.set).start()
    callback.on_rollout_end(batch(step=2))
    callback.close()
    assert 0.2 < callback.report.seconds_blocked < 30
    assert callback.report.steps_written == 3


def test_waiting_for_the_file_under_raise_is_measured(open_dump, batch):
    callback = open_dump(on_error="raise")
    write = callback._started._write
    callback._started._write = lambda *a: (threading.Event().wait(0.3), write(*a))
    callback.on_rollout_end(batch(step=1))
    callback.close()
    assert callback.report.seconds_blocked >= 0.3


def test_an_unexpected_exception_does_not_end_the_thread(caplog):
    dispatch = BackgroundDispatch(2, WhenFull.block)
    ran = []
    dispatch.submit(lambda: 1 // 0)
    dispatch.submit(lambda: ran.append(1))
    dispatch.close()
    assert ran == [1]
    assert "a task of the writing thread failed" in caplog.text


def test_the_queue_can_be_waited_for_by_a_thread_that_holds_its_lock():
    # what a signal handler does that interrupts `put`
    pending = PendingTasks(4, 100)
    pending.put(lambda: None, lambda: 1, 0)
    taker = threading.Thread(target=lambda: (pending.take()(), pending.note_done()))
    with pending._changed:
        taker.start()
        assert pending.wait_until_done(10)
    taker.join()


def test_sizes_are_those_of_tensors_and_about_those_of_values():
    ids = np.zeros((8, 1000), dtype=np.int64)
    rows = TokenRows(ids, mask=np.ones((8, 1000), dtype=np.int8))
    fields = [
        TextField("output", rows),
        TokenArrayField("response_ids", rows),
        PendingTokenField("input", ids, DeferredRows(8, np.copy, np.ones(500, dtype=np.int8)), TextField),
        ValuesField("gts", ["x" * 1000] * 8),
        CopiedField("acc", np.ones(8), None),
        CopiedField("score", DeferredRows(8, np.copy, np.ones(100)), None),
        CopiedField("detail", [{"n": [1.5, "y" * 1000]}] * 8, None),
        RepeatedField("step", 1),
    ]
    size = StepSnapshot(1, 8, range(8), fields=fields).nbytes
    exactly = 64_000 + 8_000 + 500 + 8_000 + 64 + 800 + 8_000
    assert exactly <= size <= exactly + 8 * 800


def test_what_waits_is_measured_only_where_several_steps_do():
    asked = []

    def size(step, nbytes):
        return lambda: asked.append(step) or nbytes

    pending = PendingTasks(4, 100)
    assert pending.put(lambda: None, size(1, 60), 0)
    assert asked == []
    assert pending.put(lambda: None, size(2, 40), 0)
    assert not pending.put(lambda: None, size(3, 1), 0)
    assert asked == [1, 2, 3]  # once each
    pending.take()
    assert pending.put(lambda: None, size(4, 60), 0)


def test_error_names_the_remedy():
    gate = threading.Event()
    dispatch = BackgroundDispatch(1, WhenFull.error)
    started = threading.Event()
    dispatch.submit(lambda: (started.set(), gate.wait(10)))
    started.wait(10)
    dispatch.submit(lambda: None)
    with pytest.raises(QueueFull, match=r"Raise writer\.max_pending"):
        dispatch.submit(lambda: None)
    gate.set()
    dispatch.close()
