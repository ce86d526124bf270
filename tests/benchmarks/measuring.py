"""Timing several ways of doing the same, in turn, and showing them beside each other."""

from __future__ import annotations

import argparse
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


def add_options(parser: argparse.ArgumentParser, shapes: Iterable[str], tokenizers: Iterable[str]) -> None:
    """Add the options that all benchmarks of dumps have."""
    parser.add_argument("--quick", action="store_true", help="the small batch only, fewer repeats")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--shapes", nargs="*", choices=list(shapes), default=list(shapes), help="batches (all)")
    parser.add_argument("--repeats", type=int, help="of each side (31, 9, 5 for S, M, L; 5 with --quick)")
    parser.add_argument("--tokenizer", choices=list(tokenizers), help="deepseek; smollm2 with --quick")


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Return the options, the defaults of --quick filled in; `repeats` holds those of each shape."""
    options = parser.parse_args()
    if options.quick:
        options.shapes, options.repeats = ["S"], options.repeats or 5
    options.tokenizer = options.tokenizer or ("smollm2" if options.quick else "deepseek")
    options.repeats = {shape: options.repeats or REPEATS[shape] for shape in options.shapes}
    return options


def write_json(path: Path | None, results: Any) -> None:
    """Write the results where that was asked for."""
    if path is not None:
        path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
