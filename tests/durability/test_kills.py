"""kill -9 at random moments: 200 times here, as often as TORTURE says in `make torture`."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

KILLS = int(os.environ.get("TORTURE", "200"))
SECONDS_PER_KILL = 0.3  # for the bound alone; it takes a tenth of that


@pytest.mark.timeout(60 + KILLS * SECONDS_PER_KILL)
def test_no_kill_tears_a_file_or_loses_an_acknowledged_step(tmp_path):
    seed = os.environ.get("TORTURE_SEED", str(time.time_ns()))
    command = [sys.executable, str(Path(__file__).with_name("killed_writers.py")), str(tmp_path), str(KILLS), seed]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 + KILLS * SECONDS_PER_KILL)
    assert done.returncode == 0, f"TORTURE_SEED={seed}\n{done.stderr[-3000:]}"
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts["kills"] == KILLS
    assert counts["acknowledged_steps"] > KILLS, "the writers were killed before they wrote anything worth a test"
