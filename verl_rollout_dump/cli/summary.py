"""`summary`: what a dump holds, on one screen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from verl_rollout_dump.reader import DumpReadError, read_records, read_run_record, step_files

CORE = ("input", "output", "gts", "score", "step")
LONGEST_SHOWN = 2000  # characters of a text; the file has all of it


@dataclass
class StepCounts:
    """What one file holds."""

    path: Path
    records: int
    scores: list[float]

    @property
    def mean_score(self) -> str:
        """The mean of the scores that are numbers, for people."""
        return f"{sum(self.scores) / len(self.scores):.4f}" if self.scores else "none"


def print_summary(directory: Path, console: Console) -> None:
    """Print files, records per step, mean score per step and one record. Raises `DumpReadError`."""
    files = step_files(directory)
    steps = {step: count_step(path) for step, path in files.items()}
    table = Table(title=Text(str(directory.absolute())), title_justify="left")
    for heading in ("step", "records", "mean score", "size", "file"):
        table.add_column(heading, justify="left" if heading == "file" else "right")
    for step, counts in steps.items():
        size = readable_size(counts.path.stat().st_size)
        table.add_row(str(step), str(counts.records), counts.mean_score, size, counts.path.name)
    console.print(table)
    print_state(directory, console)
    print_record(files, console)
    last = list(files.values())[-1]
    console.print(Text(f"Look at it next:  head -n 1 {last.absolute()} | python -m json.tool"), soft_wrap=True)


def count_step(path: Path) -> StepCounts:
    """Read one file through."""
    scores = [record.get("score") for record in read_records(path)]
    numbers = [float(score) for score in scores if isinstance(score, (int, float)) and not isinstance(score, bool)]
    return StepCounts(path, len(scores), numbers)


def print_state(directory: Path, console: Console) -> None:
    """Print what `run.json` says of the run: state, attempts, and what did not go as it was given."""
    record = read_run_record(directory)
    if record is None:
        console.print(Text("No run.json: not written by verl_rollout_dump."))
        return
    report: dict[str, Any] = record.get("report") or {}
    attempts = record.get("attempts") or []
    console.print(Text(f"State: {record.get('state')}, attempts: {len(attempts)}"))
    lost = {
        "steps that failed": len(report.get("steps_failed", [])),
        "steps that were dropped": len(report.get("steps_dropped", [])),
        "padding rows left out": report.get("padding_rows", 0),
    }
    for what, count in lost.items():
        if count:
            console.print(Text(f"{what}: {count}"))


def print_record(files: dict[int, Path], console: Console) -> None:
    """Print one record readably: the best of the last step."""
    path = list(files.values())[-1]
    best = max(read_records(path), key=score_of, default=None)
    if best is None:
        raise DumpReadError(f"{path} is empty")
    parts: list[Text] = []
    for label, name in (("prompt", "input"), ("response", "output"), ("ground truth", "gts"), ("score", "score")):
        parts += [Text(label, style="bold"), Text(printable(str(best.get(name)))), Text()]
    extras = {name: value for name, value in best.items() if name not in CORE}
    parts.append(Text(printable("  ".join(f"{name}={value!r}" for name, value in extras.items()))))
    console.print(Panel(Group(*parts), title=f"one record of {path.name}", title_align="left"))


def score_of(record: dict[str, Any]) -> float:
    """Return a score to order by; one that is no number comes last."""
    score = record.get("score")
    return float(score) if isinstance(score, (int, float)) else float("-inf")


def printable(text: str) -> str:
    """Make control characters visible, so that a model's output cannot drive the terminal."""
    shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}… ({len(text)} characters)"
    return "".join(visible(character) for character in shown)


def visible(character: str) -> str:
    """Return a character that a terminal prints as itself."""
    if character in "\n\t" or character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def readable_size(size: float) -> str:
    """Return a size in bytes for people."""
    units: Iterable[str] = ("B", "kB", "MB", "GB")
    for unit in units:
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
