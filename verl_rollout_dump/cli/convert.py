"""`convert`: write a dump in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verl_rollout_dump.analysis.convert import FORMATS, convert_dump
from verl_rollout_dump.analysis.selection import EVERYTHING, Selection
from verl_rollout_dump.cli.arguments import AsJson, Directory
from verl_rollout_dump.cli.opening import opened_selection
from verl_rollout_dump.cli.output import console, print_json
from verl_rollout_dump.reader import DumpReadError, FieldNames
from verl_rollout_dump.reader.field_names import DEFAULT_FIELDS


def convert(
    directory: Directory,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The file or folder to write; it must not exist.")
    ],
    to: Annotated[
        str | None, typer.Option("--to", metavar="FORM", help=f"{', '.join(FORMATS)}; default: by the name of FILE.")
    ] = None,
    selection: Selection = EVERYTHING,
    as_json: AsJson = False,
    fields: FieldNames = DEFAULT_FIELDS,
) -> None:
    """Write a dump as Parquet, CSV, Arrow, one JSONL file, or a folder for datasets.load_from_disk.

    Nested values stay nested (in CSV they are JSON text). A column of several types becomes JSON text, and is reported.

    Examples:

    - `verl-rollout-dump convert DIR -o rollouts.parquet`
    - `verl-rollout-dump convert DIR -o rollouts --to datasets`
    - `verl-rollout-dump convert DIR -o sample.csv --where 'score < 0.5' --random 1000 --seed 1`
    """
    form = to or output.suffix.lstrip(".")
    if form not in FORMATS:
        raise DumpReadError(f"unknown form {form!r}. Say one with --to: {', '.join(FORMATS)}")
    with opened_selection(directory, fields, selection) as dump:
        converted = convert_dump(dump, output, form)
    if as_json:
        print_json({"file": str(output), **converted._asdict()})
        return
    out = console()
    out.print(f"{output}: {converted.records} records as {form}")
    if converted.as_text:
        out.print(f"as JSON text, since the values have several types: {', '.join(converted.as_text)}")
