"""Timing several ways of doing the same, in turn, and showing them beside each other."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]

REPEATS = {"S": 31, "M": 9, "L": 5}


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of CPU time of all threads, and of wall time, that a run takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = run()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    del result  # releasing what was made is not timed
    return cpu, wall


def in_turn(sides: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Return (CPU, wall) seconds of each side's runs; the sides take turns, after one run that does not count."""
    for run in sides.values():
        run()
    gc.collect()
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, run in sides.items():
            seconds[name].append(timed(run))
    return seconds


def spread(values: Iterable[float], digits: int = 2) -> Row:
    """Return median, minimum and maximum."""
    values = list(values)
    summary = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: round(value, digits) for name, value in summary.items()}


def show(title: str, columns: list[str], rows: list[list[Any]]) -> None:
    """Print a table."""
    cells = [columns, *([text_of(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(columns))]
    print(f"\n{title}")
    for line in cells:
        print(
            "  ".join(
                cell.ljust(width) if not place else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
        )


def text_of(cell: Any) -> str:
    """Return a number as a person reads it."""
    if isinstance(cell, float):
        return f"{cell:,.2f}" if abs(cell) < 100 else f"{cell:,.0f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def write_json(path: Path | None, results: Any) -> None:
    """Write the results where that was asked for."""
    if path is not None:
        path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
