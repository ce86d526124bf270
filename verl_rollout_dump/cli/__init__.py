"""The command `verl-rollout-dump`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from verl_rollout_dump.cli.summary import print_summary
from verl_rollout_dump.reader import DumpReadError
from verl_rollout_dump.version import __version__

app = typer.Typer(
    help="Read the rollout dumps of a training.", no_args_is_help=True, rich_markup_mode="rich", add_completion=True
)


def show_version(is_asked: bool) -> None:
    """Print the version and end, where the option is given."""
    if is_asked:
        typer.echo(f"verl-rollout-dump {__version__}")
        raise typer.Exit


@app.callback()
def common_options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Read the rollout dumps of a training."""


@app.command()
def summary(directory: Annotated[Path, typer.Argument(help="The dump: DIR of trainer.rollout_data_dir=DIR.")]) -> None:
    """Say what a dump holds: files, records and mean score per step, and one record to look at.

    Example: verl-rollout-dump summary outputs/rollouts
    """
    try:
        print_summary(directory, Console())
    except DumpReadError as error:
        typer.echo(f"verl-rollout-dump: {error}", err=True)
        raise typer.Exit(2) from error


def main() -> None:
    """Run the command."""
    app()
