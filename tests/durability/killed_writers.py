"""Kill writers at random moments, again and again, and look at what they left. Run by test_kills.py.

    python killed_writers.py FOLDER KILLS SEED

One process imports everything once; each writer is forked from it, so that a kill costs milliseconds. A writer opens
the dump (a new attempt), writes step after step, and tells its parent of every step whose `flush` has returned.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from verl_rollout_dump import RolloutBatch, RolloutDumpCallback
from verl_rollout_dump.storage.lineage import lineage

KILLS_PER_DUMP = 40
LAST_STEP = 60


def write_for_ever(directory, begin, mark, fsync, acknowledge):
    callback = RolloutDumpCallback.from_config(
        {"path": {"dir": str(directory)}, "writer": {"fsync": fsync}, "on_error": "raise"}
    )
    os.write(acknowledge, b"o")  # open
    for step in range(begin, begin + LAST_STEP):
        size = 1 + step % 7
        rollouts = [f"{mark}/{step}/{row}/{size}" + "x" * 5_000 for row in range(size)]
        callback.on_rollout_end(RolloutBatch(step=step, prompts=rollouts, responses=rollouts, scores=[1.0] * size))
        callback.flush()
        os.write(acknowledge, b"s")


def killed_writer(directory, begin, mark, rng):
    """Run a writer and kill it; return how many steps it said were written, or None: it never opened the dump."""
    reading, writing = os.pipe()
    fsync = rng.random() < 0.3
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            write_for_ever(directory, begin, mark, fsync, writing)
        finally:
            os._exit(1)
    os.close(writing)
    told = b""
    for _ in range(rng.randint(0, 5)):  # 0: killed while it opens the dump
        told += os.read(reading, 1)
        assert told, "the next attempt did not start"
    time.sleep(rng.random() ** 2 * 0.01)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), "the writer ended by itself"
    while piece := os.read(reading, 1000):
        told += piece
    os.close(reading)
    return told.count(b"s")


def marks_of(path):
    """Check that a file is whole, and return who wrote it and for which step."""
    data = path.read_bytes()
    assert data.endswith(b"\n"), f"{path} is torn"
    rows = [json.loads(line)["input"].rstrip("x").split("/") for line in data.decode().splitlines()]
    marks = {(mark, step) for mark, step, _, _ in rows}
    assert len(marks) == 1, f"{path} mixes {marks}"
    assert [int(row) for _, _, row, _ in rows] == list(range(int(rows[0][3]))), f"{path} lacks rows"
    mark, step = marks.pop()
    assert int(step) == int(path.stem), f"{path} is step {step}"
    return mark


def attempts_of(directory):
    return json.loads((directory / "run.json").read_bytes())["attempts"]


def check(directory, acknowledged):
    """`acknowledged` is step -> (mark, attempt). A later attempt may have written the step anew, or have begun before
    it, without having lived to say so; then its own file, or none, takes the place."""
    found = {step: marks_of(path) for step, path in lineage(directory).items()}
    last = attempts_of(directory)[-2:]
    for path in [
        *directory.glob("*.jsonl"),
        *(p for a in last for p in directory.glob(f"superseded/{a['attempt']}/*.jsonl")),
    ]:
        marks_of(path)
    begins = [(entry["attempt"], entry["first_step"]) for entry in attempts_of(directory) if entry["steps"]]
    for step, (mark, attempt) in acknowledged.items():
        replaced = any(later > attempt and begin <= step for later, begin in begins)
        assert replaced or step in found, f"step {step}, acknowledged by {mark}, is gone"
        assert replaced or int(found[step]) >= int(mark), f"step {step} is by {found[step]}, acknowledged by {mark}"


def main(folder, kills, seed):
    rng = random.Random(seed)
    steps = 0
    for number in range(kills):
        if number % KILLS_PER_DUMP == 0:
            directory, acknowledged, reached = folder / str(number), {}, 0
        begin = rng.randint(max(1, reached - 5), reached + 1)
        if begin > LAST_STEP:
            begin = 1
        written = killed_writer(directory, begin, str(number), rng)
        steps += written
        if written:
            reached = begin + written - 1
            attempt = attempts_of(directory)[-1]["attempt"]
            acknowledged = {step: said for step, said in acknowledged.items() if step < begin}
            acknowledged |= {step: (str(number), attempt) for step in range(begin, reached + 1)}
        if (directory / "run.json").exists():
            check(directory, acknowledged)
    print(json.dumps({"kills": kills, "acknowledged_steps": steps}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
