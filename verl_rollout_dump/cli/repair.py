"""`repair`: write a clean copy of a dump."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verl_rollout_dump.analysis.formatting import printable
from verl_rollout_dump.cli.arguments import WORKERS, AsJson, Directory, Workers
from verl_rollout_dump.cli.output import console, print_json
from verl_rollout_dump.cli.progress import progress_bar
from verl_rollout_dump.reader import open_dump
from verl_rollout_dump.storage.step_files import REPAIR_REPORT

_SHOWN = 20


def repair(
    directory: Directory,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="A new directory for the copy.")],
    as_json: AsJson = False,
    workers: Workers = WORKERS,
) -> None:
    """Write a clean copy of a dump; the dump itself is not changed.

    Torn and unreadable lines are left out and listed. NaN and Infinity become null. Numbers, booleans and whole
    tensors that default=str had turned into text are restored if their field allows no other reading. Good lines are
    copied byte for byte. OUT/repair.json lists every change.

    Example:

    - `verl-rollout-dump repair DIR -o CLEAN && verl-rollout-dump check CLEAN`
    """
    from verl_rollout_dump.analysis.repair import repair_dump

    dump = open_dump(directory)
    with progress_bar("repairing", 2 * dump.size) as advance:
        report = repair_dump(dump, output, workers, advance)
    if as_json:
        print_json(report.as_json())
        return
    out = console()
    out.print(f"{output}: {report.records} records in {report.files} files")
    for change, count in report.changes.most_common():
        out.print(f"  {count:>8} x {printable(change)}")
    for problem in report.left_out[:_SHOWN]:
        out.print(f"  left out: {printable(str(problem))}")
    if len(report.left_out) > _SHOWN:
        out.print(f"  … and {len(report.left_out) - _SHOWN} more, listed in {output / REPAIR_REPORT}")
