"""Part of bench_dump.py: a step's whole dump by each side, in turn, and what both write compared."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

from measuring import Row, spread, timed
from sides import SIDES, Bench, TrainingBatch, dump_once, remove_steps

from verl_rollout_dump.storage.atomic_files import write_all


def whole_dump(bench: Bench) -> list[Row]:
    """CPU of both threads, time from call to return, time until the file is there; and the bytes per second."""
    rows = []
    for shape in bench.shapes:
        batch, repeats = bench.batch(shape), bench.repeats[shape]
        with tempfile.TemporaryDirectory() as folder:
            dumps = {name: make(bench.tokenizer, Path(folder, name)) for name, make in SIDES.items()}
            compare_files(bench, dumps, batch, Path(folder))
            runs: dict[str, list[Row]] = {name: [] for name in dumps}
            for _ in range(repeats):
                for name, dump in dumps.items():
                    runs[name].append(dump_once(bench, dump, batch))
                    if len(runs[name]) < repeats:
                        remove_steps(Path(folder, name))
            writev = writev_seconds(next(Path(folder, "ours").glob("*.jsonl")), Path(folder, "writev"))
            size = next(Path(folder, "ours").glob("*.jsonl")).stat().st_size
            for dump in dumps.values():
                dump.close()
        rows += [whole_row(shape, name, runs, size, writev, batch.tokens) for name in runs]
    return rows


def whole_row(shape: str, side: str, runs: dict[str, list[Row]], size: int, writev: float, tokens: int) -> Row:
    """Put one side's figures together."""
    spreads = {kind: spread(run[kind] for run in runs[side]) for kind in ("cpu_ms", "call_ms", "done_ms")}
    of_verl = {kind: statistics.median(run[kind] for run in runs["verl"]) for kind in spreads}
    seconds = statistics.median(run["cpu_ms"] for run in runs[side]) / 1e3
    return {
        "shape": shape,
        "side": side,
        "tokens": tokens,
        "file_mb": round(size / 1e6, 2),
        **spreads,
        "cpu_times_verl": round(of_verl["cpu_ms"] / spreads["cpu_ms"]["median"], 1),
        "call_percent_of_verl": round(100 * spreads["call_ms"]["median"] / of_verl["call_ms"], 2),
        "mb_per_cpu_second": round(size / 1e6 / seconds, 1),
        "percent_of_writev": round(100 * writev / seconds, 1),
    }


def compare_files(bench: Bench, dumps: dict[str, Any], batch: TrainingBatch, folder: Path) -> None:
    """Dump once by each side, and compare what both write; this also makes our table of the vocabulary."""
    step = bench.next_step()
    for dump in dumps.values():
        dump.hand_over(step, batch)
        dump.finish()
    verl, ours = (
        (folder / name / f"{step}.jsonl").read_text(encoding="utf-8").split("\n") for name in ("verl", "ours")
    )
    assert len(verl) == len(ours) == len(batch.proto) + 1
    for theirs, mine in zip(verl[:-1], ours[:-1], strict=True):
        left, right = json.loads(theirs), json.loads(mine)
        assert all(left[key] == right[key] for key in ("input", "output", "gts", "step", "request_id", "acc"))
    for name in dumps:
        remove_steps(folder / name)


def writev_seconds(source: Path, target: Path) -> float:
    """Return the CPU seconds that writing the same lines, ready in memory, takes at best."""
    lines = source.read_bytes().splitlines(keepends=True)

    def write() -> None:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        write_all(descriptor, lines)
        os.close(descriptor)
        target.unlink()

    return statistics.median(timed(write)[0] for _ in range(9)) or 1e-6
