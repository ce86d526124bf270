"""The output of commands."""

from __future__ import annotations

from typing import Any

import typer
from rich.console import Console

from verl_rollout_dump.analysis.formatting import json_text


def console() -> Console:
    """Return the console of standard output, which does not interpret markup in the data."""
    return Console(markup=False, highlight=False, emoji=False)


def print_json(value: Any) -> None:
    """Print a value as one line of strict JSON; NaN becomes null."""
    typer.echo(json_text(value))
