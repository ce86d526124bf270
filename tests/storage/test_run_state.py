"""A run that was killed is told from one that lives, and the steps that it took and did not write are named."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from typer.testing import CliRunner

from verl_rollout_dump import RolloutDumpCallback
from verl_rollout_dump.cli import app
from verl_rollout_dump.storage.run_state import dead_runs, end_of_run, is_alive, unwritten_steps

KILLED = """
import os, signal, sys, time
from verl_rollout_dump import RolloutBatch, RolloutDumpCallback
from verl_rollout_dump.storage import atomic_files
callback = RolloutDumpCallback.from_config({"path": {"dir": sys.argv[1]}})
def batch(step):
    return RolloutBatch(step=step, prompts=["p"], responses=["r"], scores=[1.0])
callback.on_rollout_end(batch(1))
callback.flush()
real = atomic_files.write_all
def hang(descriptor, pieces):
    if b"input" in b"".join(pieces):
        os.write(1, b"writing\\n")
        time.sleep(60)
    return real(descriptor, pieces)
atomic_files.write_all = hang
for step in (2, 3, 4):
    callback.on_rollout_end(batch(step))
os.write(1, b"given\\n")
time.sleep(60)
"""


@pytest.fixture
def killed(tmp_path):
    """A dump whose run was killed: step 1 is written, steps 2 to 4 were handed over. Returns its folder and pid."""
    folder = tmp_path / "dump"
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert sorted(process.stdout.readline() for _ in range(2)) == ["given\n", "writing\n"]
    assert is_alive(folder) and dead_runs(folder) == [] and unwritten_steps(folder) == set()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return folder, process.pid


def test_the_lock_tells_that_the_run_is_gone(killed):
    folder, pid = killed
    assert json.loads((folder / "run.json").read_bytes())["state"] == "running"
    (dead,) = dead_runs(folder)
    assert (dead.pid, dead.unwritten) == (pid, {2, 3, 4})
    assert str(dead) == f"ended without a word (pid {pid} is gone)"


def test_a_copy_on_another_host_is_not_taken_for_a_live_run(killed):
    folder, pid = killed
    owner = json.loads((folder / "run.lock").read_bytes())
    (folder / "run.lock").write_text(json.dumps({**owner, "host": "node7", "pid": os.getpid()}))
    assert end_of_run(folder).startswith(f"ended without a word (pid {pid} is gone); steps 2-4 ")


@pytest.mark.parametrize("command", ["summary", "ls", "check"])
def test_commands_say_how_it_ended_and_what_is_lost(killed, command):
    folder, pid = killed
    said = " ".join(CliRunner().invoke(app, [command, str(folder)], env={"COLUMNS": "300"}).output.split())
    assert f"ended without a word (pid {pid} is gone)" in said
    assert "steps 2-4 were handed over and not written" in said


def test_the_next_attempt_keeps_what_is_lost_on_record(killed, batch):
    folder, _ = killed
    with RolloutDumpCallback.from_config({"path": {"dir": str(folder)}}) as callback:
        callback.on_rollout_end(batch(n=1, step=2))
    attempts = json.loads((folder / "run.json").read_bytes())["attempts"]
    assert [(a["state"], a["steps"], a["pending"]) for a in attempts] == [("failed", "1", "2-4"), ("complete", "2", "")]
    assert unwritten_steps(folder) == {3, 4}
    assert dead_runs(folder) == [] and not (folder / "run.pending").exists()
