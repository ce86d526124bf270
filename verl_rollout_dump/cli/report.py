"""`report`: write one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verl_rollout_dump.analysis.formatting import readable_size
from verl_rollout_dump.analysis.selection import EVERYTHING, Selection
from verl_rollout_dump.cli.arguments import WORKERS, AsJson, Directory, Workers
from verl_rollout_dump.cli.opening import opened_selection
from verl_rollout_dump.cli.output import console, print_json
from verl_rollout_dump.cli.progress import progress_bar
from verl_rollout_dump.reader import FieldNames
from verl_rollout_dump.reader.field_names import DEFAULT_FIELDS


def report(
    directory: Directory,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The HTML file to write.")],
    selection: Selection = EVERYTHING,
    as_json: AsJson = False,
    workers: Workers = WORKERS,
    fields: FieldNames = DEFAULT_FIELDS,
) -> None:
    """Write one HTML file to send to someone: curves, distributions, extras, best, worst and changed records, groups.

    The file contains everything that it shows, loads nothing, and has no script; what a model wrote is shown as text.

    Example:

    - `verl-rollout-dump report DIR -o report.html`
    """
    from verl_rollout_dump.html_report import write_report

    with opened_selection(directory, fields, selection) as dump, progress_bar("reading", 2 * dump.size) as advance:
        write_report(dump, output, workers, advance)
    size = output.stat().st_size
    if as_json:
        print_json({"file": str(output), "bytes": size})
        return
    console().print(f"{output}: {readable_size(size)}")
