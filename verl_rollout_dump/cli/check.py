"""`check`: verify that a dump is complete."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from verl_rollout_dump.analysis.check import ERROR, Finding, check_dump
from verl_rollout_dump.analysis.formatting import printable
from verl_rollout_dump.cli.arguments import WORKERS, AsJson, Directory, Workers
from verl_rollout_dump.cli.exit_codes import WRONG
from verl_rollout_dump.cli.output import console, print_json
from verl_rollout_dump.cli.progress import progress_bar
from verl_rollout_dump.reader import open_dump

_STYLES = {ERROR: "bold red"}


def check(
    directory: Directory,
    strict: Annotated[bool, typer.Option("--strict", help="Count warnings as errors.")] = False,
    as_json: AsJson = False,
    workers: Workers = WORKERS,
) -> None:
    """Check that a dump is complete, strict JSON, and consistent.

    Finds torn and unreadable lines, NaN, missing and duplicate steps, uneven steps, duplicate records and uids,
    different keys and types, numbers and tensors that became text, and values that could not be written. Compares
    the files with run.json.

    Exit code 0: no errors (with --strict: no warnings either). 1: errors were found. 2: there is no dump
    to check.

    Examples:

    - `verl-rollout-dump check DIR`
    - `verl-rollout-dump check DIR --strict --json > findings.json`
    """
    dump = open_dump(directory)
    with progress_bar("checking", dump.size) as advance:
        findings = check_dump(dump, workers, advance)
    errors = [finding for finding in findings if finding.severity == ERROR]
    if as_json:
        print_json({"errors": len(errors), "findings": [finding.as_json() for finding in findings]})
    else:
        _print_findings(findings, len(errors), len(dump.files))
    if errors or (strict and findings):
        raise typer.Exit(WRONG)


def _print_findings(findings: list[Finding], errors: int, files: int) -> None:
    """Print findings as a table, and their number."""
    out = console()
    if findings:
        table = Table()
        for heading in ("", "what", "count", "", "first"):
            table.add_column(heading, justify="right" if heading == "count" else "left", overflow="fold")
        for finding in findings:
            mark = Text(finding.severity, style=_STYLES.get(finding.severity, "yellow"))
            told = [Text(printable(text)) for text in (finding.kind, str(finding.count), finding.message)]
            table.add_row(mark, *told, Text(printable(finding.where)))
        out.print(table)
    out.print(f"files: {files}, errors: {errors}, warnings: {len(findings) - errors}")
