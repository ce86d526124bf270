"""Where commands print to."""

from __future__ import annotations

from typing import Any

import orjson
import typer
from rich.console import Console

JSON_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def console() -> Console:
    """Return the console of standard output; markup in the data means nothing there."""
    return Console(markup=False, highlight=False, emoji=False)


def print_json(value: Any) -> None:
    """Print a value as one line of strict JSON; NaN becomes null."""
    typer.echo(json_text(value))


def json_text(value: Any) -> str:
    """Return a value as one line of strict JSON."""
    return orjson.dumps(value, default=str, option=JSON_OPTIONS).decode()
