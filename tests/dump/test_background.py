"""The background queue: order, bound, and what happens when it is full."""

import threading

import pytest

from verl_rollout_dump import RolloutDumpCallback
from verl_rollout_dump.config.schema import WhenFull
from verl_rollout_dump.dump.background import BackgroundDispatch, InlineDispatch, QueueFull


@pytest.fixture
def gate():
    event = threading.Event()
    yield event
    event.set()


def filled(when_full, gate):
    """A dispatch whose thread is held up and whose queue, of one, is full."""
    dispatch = BackgroundDispatch(1, when_full)
    started = threading.Event()
    dispatch.submit(lambda: (started.set(), gate.wait()))
    started.wait()
    dispatch.submit(lambda: None)
    return dispatch


def test_tasks_run_in_order_off_the_callers_thread():
    seen = []
    dispatch = BackgroundDispatch(2, WhenFull.block)
    for i in range(20):
        dispatch.submit(lambda i=i: seen.append((i, threading.current_thread().name)))
    dispatch.flush()
    assert seen == [(i, "verl-rollout-dump") for i in range(20)]
    dispatch.close()
    dispatch.close()
    with pytest.raises(RuntimeError, match="closed"):
        dispatch.submit(lambda: None)


def test_block_waits_for_room_and_measures_it(gate):
    dispatch = filled(WhenFull.block, gate)
    threading.Timer(0.2, gate.set).start()
    assert dispatch.submit(lambda: None) is True
    assert dispatch.seconds_blocked > 0.1
    dispatch.close()


def test_drop_says_so(gate):
    assert filled(WhenFull.drop, gate).submit(lambda: None) is False


def test_error_names_the_remedy(gate):
    with pytest.raises(QueueFull, match=r"writer.when_full=error. Raise writer.max_pending"):
        filled(WhenFull.error, gate).submit(lambda: None)


def test_inline_runs_at_once():
    seen = []
    assert InlineDispatch().submit(lambda: seen.append(1)) is True
    assert seen == [1]


def test_dropped_batches_are_counted_per_step(tmp_path, batch, gate, monkeypatch, caplog):
    config = {"path": {"dir": str(tmp_path)}, "writer": {"max_pending": 1, "when_full": "drop"}}
    callback = RolloutDumpCallback.from_config(config)
    started, write = threading.Event(), callback._started._write
    monkeypatch.setattr(callback._started, "_write", lambda *a: (started.set(), gate.wait(), write(*a)))
    callback.on_rollout_end(batch(step=1))
    started.wait()
    for step in (2, 3, 4):
        callback.on_rollout_end(batch(step=step))
    gate.set()
    callback.close()
    assert callback.report.steps_dropped == [3, 4]
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == ["1.jsonl", "2.jsonl"]
    assert caplog.text.count("is dropped: the queue of rollouts is full") == 1
    assert "rollouts of 2 steps are missing in the dump: [3, 4]" in caplog.text
