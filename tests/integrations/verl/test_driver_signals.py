"""The handlers of the driver and the listener beside the dump, with a key-value store in place of Ray's."""

import json
import signal
import subprocess
import sys
import textwrap

import pytest

FAKE_RAY = """
import os, signal, sys, threading, time, types

store = {}
kv = types.ModuleType("ray.experimental.internal_kv")
kv._internal_kv_put = lambda key, value: store.__setitem__(key, value)
kv._internal_kv_get = store.get
kv._internal_kv_exists = lambda key: key in store
kv._internal_kv_list = lambda prefix: [key for key in list(store) if key.startswith(prefix)]
experimental = types.ModuleType("ray.experimental")
experimental.internal_kv = kv

class Context:
    def get_job_id(self):
        return "01000000"

ray = types.ModuleType("ray")
ray.is_initialized = lambda: True
ray.get_runtime_context = Context
ray.init = lambda: None
sys.modules.update({"ray": ray, "ray.experimental": experimental, "ray.experimental.internal_kv": kv})

from verl_rollout_dump import RolloutBatch, RolloutDumpCallback
from verl_rollout_dump.integrations.verl import driver_signals
from verl_rollout_dump.storage import atomic_files

real = atomic_files.write_all
def slow(descriptor, pieces):
    if b"input" in b"".join(pieces):
        time.sleep(float(sys.argv[2]))
    return real(descriptor, pieces)
atomic_files.write_all = slow
driver_signals.POLL_SECONDS = 0.05

driver_signals.watch_ray()
driver_signals.watch_ray()  # a second time does nothing
ray.init()
ray.init()  # the next job of a sweep
callback = RolloutDumpCallback.from_config({"path": {"dir": sys.argv[1]}})
driver_signals.listen()
for step in (1, 2, 3):
    callback.on_rollout_end(RolloutBatch(step=step, prompts=["p"], responses=["r"], scores=[1.0]))
"""


@pytest.fixture
def run(tmp_path):
    def run(end, seconds="0.1"):
        return subprocess.run(
            [sys.executable, "-c", FAKE_RAY + textwrap.dedent(end), str(tmp_path / "dump"), seconds],
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


def attempt_of(dump):
    return json.loads((dump / "run.json").read_bytes())["attempts"][0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_dump_is_ended_before_the_signal_does_what_it_would_have_done(run, tmp_path, number):
    done = run(f"os.kill(os.getpid(), {int(number)}); time.sleep(30)")
    assert done.returncode == -number, done.stderr
    attempt = attempt_of(tmp_path / "dump")
    assert (attempt["state"], attempt["steps"], attempt["pending"]) == ("failed", "1-3", "")
    assert done.stderr.count(f"verl_rollout_dump: {number.name}: writing the rollouts that wait, for up to 24 s") == 1
    assert "verl_rollout_dump: the dump is ended" in done.stderr


def test_a_second_signal_ends_the_wait(run):
    done = run(
        """
        threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        threading.Timer(2, lambda: os._exit(7)).start()  # what the interpreter still writes is not waited for
        os.kill(os.getpid(), signal.SIGINT)
        """,
        "30",
    )
    assert done.returncode == 7
    assert "writing the rollouts that wait" in done.stderr and "KeyboardInterrupt" in done.stderr
    assert "the dump is ended" not in done.stderr


def test_a_signal_that_is_ignored_stays_ignored(run, tmp_path):
    ignoring = "signal.signal(signal.SIGINT, signal.SIG_IGN); ray.init()"
    done = run(f"{ignoring}; os.kill(os.getpid(), signal.SIGINT); callback.close(); print('on')")
    assert (done.returncode, done.stdout) == (0, "on\n"), done.stderr
    assert attempt_of(tmp_path / "dump")["state"] == "complete"


def test_a_handler_of_the_user_is_called_after_the_dump_is_ended(run, tmp_path):
    done = run(
        """
        signal.signal(signal.SIGINT, lambda number, frame: print("mine", sorted(os.listdir(sys.argv[1]))[:3]))
        ray.init()
        os.kill(os.getpid(), signal.SIGINT)
        """
    )
    assert (done.returncode, done.stdout) == (0, "mine ['1.jsonl', '2.jsonl', '3.jsonl']\n"), done.stderr
