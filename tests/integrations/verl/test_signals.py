"""Ctrl-C and SIGTERM of real trainings whose disk is slow: every step that was handed over is written first."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from real_verl import DROPPED_PREFIXES

from verl_rollout_dump.storage.run_state import end_of_run
from verl_rollout_dump.verl_cpu.train import INTERRUPTED, command_line, environment, ray_directory

pytestmark = [pytest.mark.verl, pytest.mark.train]

SECONDS_FOR_A_STEP = 6
LAST_STEP = 4
START_SECONDS = 400
END_SECONDS = 60


@pytest.fixture
def start(tiny_assets, tmp_path):
    """Start a training with slow writes; the function returns its process when `LAST_STEP` is over."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED_PREFIXES)}
    python_path = os.pathsep.join(filter(None, [str(Path(__file__).parent), kept.get("PYTHONPATH")]))
    slow = {
        "VERL_USE_EXTERNAL_MODULES": "slow_writes",
        "SLOW_WRITES": str(SECONDS_FOR_A_STEP),
        "PYTHONPATH": python_path,
    }
    overrides = [f"trainer.rollout_data_dir={tmp_path / 'rollouts'}", "trainer.total_training_steps=60"]
    log = tmp_path / "verl.log"
    started = []

    def begin(command, env):
        with (tmp_path / "output").open("w") as output:
            process = subprocess.Popen(
                command,
                env={**env, **slow},
                cwd=tmp_path,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started.append(process)
        ends = time.monotonic() + START_SECONDS
        while f"step:{LAST_STEP} -" not in "".join(p.read_text(errors="replace") for p in logs() if p.exists()):
            assert process.poll() is None and time.monotonic() < ends, (tmp_path / "output").read_text()[-4000:]
            time.sleep(0.2)
        return process

    def logs():
        return [tmp_path / "output", log]

    with ray_directory() as ray_dir:
        commands = {
            "main_ppo": (command_line(overrides), environment(kept, tiny_assets, ray_dir)),
            "make run": (
                [
                    *(sys.executable, "-m", "verl_rollout_dump.verl_cpu.train", "--model", "tiny"),
                    *("--assets", str(tiny_assets), "--log", str(log), *overrides),
                ],
                kept,
            ),
        }
        yield lambda name: begin(*commands[name])
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def assert_all_is_written(dump):
    record = json.loads((dump / "run.json").read_bytes())
    (attempt,) = record["attempts"]
    steps = sorted(int(path.stem) for path in dump.glob("*.jsonl"))
    assert steps[:LAST_STEP] == [1, 2, 3, 4] and steps == list(range(1, len(steps) + 1))
    assert (record["state"], attempt["state"], attempt["steps"]) == ("failed", "failed", f"1-{len(steps)}")
    assert (attempt["pending"], attempt["dropped"], end_of_run(dump)) == ("", "", "")
    assert list(dump.glob("*.tmp")) == [] and not (dump / "run.pending").exists()


# Each signal and each target once: a training takes a minute and a half.
@pytest.mark.parametrize(("number", "send"), [(signal.SIGINT, os.kill), (signal.SIGTERM, os.killpg)])
def test_a_signal_to_the_process_or_its_group(start, tmp_path, number, send):
    process = start("main_ppo")
    send(process.pid, number)
    assert process.wait(END_SECONDS) != 0
    assert_all_is_written(tmp_path / "rollouts")
    assert f"verl_rollout_dump: {number.name}: writing the rollouts that wait" in (tmp_path / "output").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT])
def test_a_signal_to_the_command_of_make_run(start, tmp_path, number):
    process = start("make run")
    os.kill(process.pid, number)
    assert process.wait(END_SECONDS) == INTERRUPTED
    assert_all_is_written(tmp_path / "rollouts")


def test_sigkill_of_the_driver_is_told_from_a_live_run(start, tmp_path):
    process = start("main_ppo")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    ends = time.monotonic() + END_SECONDS
    while not end_of_run(tmp_path / "rollouts") and time.monotonic() < ends:
        time.sleep(0.2)
    pid = json.loads((tmp_path / "rollouts/run.json").read_bytes())["attempts"][0]["pid"]
    said = end_of_run(tmp_path / "rollouts")
    assert said.startswith(f"ended without a word (pid {pid} is gone)")
    assert "handed over and not written" in said
