"""What tests of durability share: dumps, other processes, and file systems that can be broken."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from verl_rollout_dump import RolloutDumpCallback

SCRIPT_SECONDS = 60


@pytest.fixture
def open_dump(tmp_path):
    """Open a dump into a directory, without pauses that cost a test its time."""

    def make(directory=tmp_path / "dump", **node):
        config = {**node, "path": {"dir": str(directory), **node.get("path", {})}}
        config["writer"] = {"retry_seconds": 0, **node.get("writer", {})}
        return RolloutDumpCallback.from_config(config)

    return make


@pytest.fixture
def attempts_of():
    """The attempts of a dump, as `run.json` has them."""

    def read(directory):
        return json.loads((directory / "run.json").read_bytes())["attempts"]

    return read


PREAMBLE = """
import os, signal, sys, threading, time
from verl_rollout_dump import RolloutBatch, RolloutDumpCallback
DUMP = sys.argv[1]

def batch(step, text="p"):
    return RolloutBatch(step=step, prompts=[text], responses=["r"], scores=[1.0])

def open_dump(**node):
    return RolloutDumpCallback.from_config({"path": {"dir": DUMP}, **node})

"""


@pytest.fixture
def start_script(tmp_path):
    """Start a Python script in another process, with the dump's directory as its argument."""
    started = []

    def start(script, directory=tmp_path / "dump", **environment):
        process = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + textwrap.dedent(script), str(directory)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def run_script(start_script):
    """Run a Python script in another process to its end; `output` has what it printed, both ways."""

    def run(script, *args, **environment):
        process = start_script(script, *args, **environment)
        process.out, process.err = process.communicate(timeout=SCRIPT_SECONDS)
        return process

    return run


@pytest.fixture
def tmpfs(tmp_path):
    """Mount a small file system of memory; its `mount` can be called again, to remount it."""
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    folder = tmp_path / "tmpfs"
    folder.mkdir()

    def mount(options):
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.strip()}")
        return folder

    yield mount
    while subprocess.run(["umount", "-l", str(folder)], capture_output=True).returncode == 0:
        pass
