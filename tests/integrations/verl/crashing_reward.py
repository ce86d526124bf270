"""A reward function that does something to the training when the steps named in CRASH are in the dump.

CRASH="kill 2": the process that dumps (its pid is in `run.json`) is killed in the middle of step 3.
CRASH="unwritable 1": a file takes the place of the dump's directory in the middle of step 2.
"""

import json
import os
import signal
from pathlib import Path


def kill(dump):
    os.kill(json.loads((dump / "run.json").read_bytes())["attempts"][-1]["pid"], signal.SIGKILL)


def unwritable(dump):
    dump.rename(dump.with_name("moved"))
    dump.write_text("a file")


CRASHES = {"kill": kill, "unwritable": unwritable}


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    dump = Path(os.environ["CRASH_DUMP"])
    what, _, step = os.environ.get("CRASH", "").partition(" ")
    done = dump.with_name("crashed")
    if what and not done.exists() and (dump / f"{step}.jsonl").exists():
        done.write_text(what)
        CRASHES[what](dump)
    return {"score": float(len(solution_str) % 2), "acc": bool(len(solution_str) % 2)}
