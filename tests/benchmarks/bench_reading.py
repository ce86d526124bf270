"""How fast a dump is read: the commands, beside verl's viewer's way of loading and plain Python, in one run.

Every line is a process of its own, so starting Python is in the figures. It makes its own data: 2 GB of steps of 20
MB (`--quick`: 60 MB). `MB/s` is the size of the dump by the wall time, `MB/CPU s` by the CPU time of all processes
(what one core does, whatever else the machine does); `peak MB` is that of the largest process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from measuring import Row, show, write_json

STEP_SIZE = 20 << 20  # bytes
GROUP = 8  # rollouts of a prompt
COMMAND = [sys.executable, "-m", "verl_rollout_dump.cli"]

# verl's scripts/rollout_viewer.py keeps every record of every file, and turns what is no text into text.
VERL_VIEWER = """
import json, sys
from pathlib import Path
data = {}
for i, path in enumerate(sorted(Path(sys.argv[1]).glob("*.jsonl"), key=lambda p: int(p.stem))):
    samples = []
    for line in path.open(encoding="utf-8"):
        d = json.loads(line)
        for k in d:
            if not isinstance(d[k], str):
                d[k] = json.dumps(d[k], ensure_ascii=False, indent=4)
        samples.append(d)
    data[i] = {"samples": samples}
print(data[0]["samples"][0]["output"][:10])
"""
PLAIN_PYTHON = """
import json, sys
from pathlib import Path
for path in Path(sys.argv[1]).glob("*.jsonl"):
    scores = [json.loads(line)["score"] for line in path.open("rb")]
    print(path.stem, sum(scores) / len(scores))
"""
OUR_LOOP = """
import sys
from verl_rollout_dump.reader import open_dump
print(sum(record["score"] for record in open_dump(sys.argv[1])))
"""
VIEW_START = """
import asyncio, sys
from verl_rollout_dump.reader import open_dump
from verl_rollout_dump.viewer.app import ViewerApp
from verl_rollout_dump.viewer.source import ViewerSource
async def session():
    with ViewerSource(open_dump(sys.argv[1])) as source:
        app = ViewerApp(source)
        async with app.run_test(size=(170, 50)) as pilot:
            while not str(app.status_line.render()):
                await asyncio.sleep(0.005)
            app.workers.cancel_all()
asyncio.run(session())
"""


class Case(NamedTuple):
    """What is run: a name, the command without the dump, what comes behind the dump, and whether there is an index."""

    name: str
    command: list[str]
    options: list[str]
    with_index: bool


def python(code: str) -> list[str]:
    """Return the command that runs code."""
    return [sys.executable, "-c", code]


CASES = (
    Case("first record, no index (show -s last -i 0)", [*COMMAND, "show"], ["-s", "last", "-i", "0"], False),
    Case("worst of the whole dump, no index (show --worst 1)", [*COMMAND, "show"], ["--worst", "1"], False),
    Case("worst of the whole dump, index there", [*COMMAND, "show"], ["--worst", "1"], True),
    Case("first record, index there", [*COMMAND, "show"], ["-s", "last", "-i", "0"], True),
    Case("ls, index there", [*COMMAND, "ls"], [], True),
    Case("view, until the last step is shown, index there", python(VIEW_START), [], True),
    Case("view, the same, no index", python(VIEW_START), [], False),
    Case("stats", [*COMMAND, "stats"], [], True),
    Case("check", [*COMMAND, "check"], [], True),
    Case("for record in open_dump(..), one process", python(OUR_LOOP), [], True),
    Case("plain Python: json.loads, mean score per step", python(PLAIN_PYTHON), [], True),
    Case("verl's viewer: all records into lists of dicts", python(VERL_VIEWER), [], True),
)


def make_dump(folder: Path, size: int, step_size: int) -> int:
    """Write steps until they have a size in bytes; return it."""
    folder.mkdir(parents=True)
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(5000)]
    texts = [" ".join(chance.choices(words, k=chance.randint(50, 900))) + '\n"é" \\boxed{7}\n' for _ in range(500)]
    made = step = 0
    while made < size:
        step += 1
        with (folder / f"{step}.jsonl").open("wb") as file:
            number = 0
            while file.tell() < min(step_size, size):
                file.write(line_of(chance, texts, step, number))
                number += 1
            made += file.tell()
    return made


def line_of(chance: random.Random, texts: list[str], step: int, number: int) -> bytes:
    """Return one record of a made dump."""
    group = number // GROUP
    record = {
        "input": f"user\n{group} {texts[group % len(texts)][:400]}\nassistant\n",
        "output": f"{number} {chance.choice(texts)}",
        "gts": str(group),
        "score": chance.random(),
        "step": step,
        "uid": f"{step}-{group}_{number % GROUP}_0",
        "acc": chance.random() < 0.5,
        "len": float(number),
        "reward": {"format": chance.random(), "correct": chance.random() < 0.5},
    }
    return orjson.dumps(record) + b"\n"


class Run(NamedTuple):
    """One run of a case: seconds of wall and of CPU (all its processes), peak memory of the largest process in MB."""

    wall: float
    cpu: float
    peak: float


def run_case(case: Case, dump: Path) -> Run:
    """Run a case in a new process."""
    if not case.with_index:
        (dump / "reader.index").unlink(missing_ok=True)
    arguments = [*case.command, str(dump), *case.options]
    begun = time.perf_counter()
    child = os.posix_spawn(
        arguments[0], arguments, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    )
    _, status, usage = os.wait4(child, 0)
    seconds = time.perf_counter() - begun
    if status:
        raise RuntimeError(f"{case.name} failed: {' '.join(arguments)[:200]}")
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def run_cases(dump: Path, size: int, repeats: int, wanted: Callable[[str], bool]) -> list[Row]:
    """Run all cases; the fastest of some runs counts, since the machine has other things to do."""
    rows = []
    for case in filter(lambda case: wanted(case.name), CASES):
        runs = [run_case(case, dump) for _ in range(repeats)]
        wall, cpu = min(run.wall for run in runs), min(run.cpu for run in runs)
        figures = {"seconds": wall, "CPU s": cpu, "MB/s": round(size / wall / 1e6), "MB/CPU s": round(size / cpu / 1e6)}
        rows.append({"what": case.name, **figures, "peak MB": round(max(run.peak for run in runs))})
        print(json.dumps(rows[-1]), file=sys.stderr)
    return rows


def main() -> None:
    """Print a table, and write it as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="60 MB instead of 2 GB")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--only", default="", help="cases whose names hold this")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench_reading-"))
    try:
        results: dict[str, Any] = {"cpus": os.cpu_count()}
        sizes = {"small": 10_000_000, "large": 60_000_000 if options.quick else 2_000_000_000}
        for name, wanted_size in sizes.items():
            size = make_dump(folder / name, wanted_size, STEP_SIZE)
            results[name] = run_cases(folder / name, size, options.repeats, lambda case: options.only in case)
            columns = list(results[name][0])
            show(
                f"a dump of {size / 1e6:,.0f} MB",
                columns,
                [[row[column] for column in columns] for row in results[name]],
            )
        write_json(options.json, results)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
