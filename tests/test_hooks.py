"""Callbacks: registering, building, and fan-out that never stops."""

import logging

import pytest

from verl_rollout_dump import ConfigError, DumpError, RolloutCallback, register_callback
from verl_rollout_dump.hooks import RolloutHooks, build_callbacks, unregister_callback


class Recorder(RolloutCallback):
    def __init__(self):
        self.seen = []

    def on_rollout_end(self, batch):
        self.seen.append(("rollout", batch.step))

    def on_validation_end(self, batch):
        self.seen.append(("validation", batch.step))

    def on_train_end(self):
        self.seen.append(("end",))


class Broken(RolloutCallback):
    def on_rollout_end(self, batch):
        raise KeyError("mine")


class FailedDump(RolloutCallback):
    def on_rollout_end(self, batch):
        raise DumpError("step 7")


@pytest.fixture
def registered():
    register_callback("recorder")(Recorder)
    yield
    unregister_callback("recorder")


def test_every_callback_gets_every_event(batch):
    first, second = Recorder(), Recorder()
    hooks = RolloutHooks([first, second])
    hooks.fire_rollout_end(batch())
    hooks.fire_validation_end(batch())
    hooks.fire_train_failed(RuntimeError())
    assert first.seen == second.seen == [("rollout", 7), ("validation", 7), ("end",)]


def test_a_callback_that_raises_stops_nobody(batch, caplog):
    recorder = Recorder()
    with caplog.at_level(logging.ERROR):
        RolloutHooks([Broken(), recorder]).fire_rollout_end(batch())
    assert recorder.seen == [("rollout", 7)]
    assert "callback Broken failed in on_rollout_end; training goes on" in caplog.text
    assert "KeyError: 'mine'" in caplog.text


def test_a_dump_error_is_passed_on_after_all_have_run(batch):
    recorder = Recorder()
    with pytest.raises(DumpError, match="step 7"):
        RolloutHooks([FailedDump(), recorder]).fire_rollout_end(batch())
    assert recorder.seen == [("rollout", 7)]


def test_registered_callbacks_run_without_being_named(registered):
    assert [type(callback) for callback in build_callbacks(["dump"])] == [Recorder]
    assert [type(callback) for callback in build_callbacks(["dump", "recorder"])] == [Recorder]


def test_without_any_the_dump_runs_alone():
    assert build_callbacks(["dump"]) == []


def test_a_name_that_nobody_offers():
    with pytest.raises(ConfigError, match=r"names 'wandb_table'.*Known: dump"):
        build_callbacks(["dump", "wandb_table"])


def test_names_are_taken_once(registered):
    register_callback("recorder")(Recorder)  # the same class again: a module that was reloaded
    with pytest.raises(ValueError, match="'recorder' is taken"):
        register_callback("recorder")(Broken)
    with pytest.raises(ValueError, match="'dump' is taken"):
        register_callback("dump")(Broken)
    with pytest.raises(TypeError, match="takes a subclass of RolloutCallback"):
        register_callback("x")(dict)
