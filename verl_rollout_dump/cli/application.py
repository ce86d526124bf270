"""The typer application: the commands of `commands.COMMANDS`, and what a user's mistake does."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from verl_rollout_dump.analysis.where import WhereError
from verl_rollout_dump.cli.commands import COMMANDS
from verl_rollout_dump.cli.ending import interrupts
from verl_rollout_dump.cli.exit_codes import INTERRUPTED, MISTAKE, NOTHING_FOUND, epilog
from verl_rollout_dump.cli.option_groups import with_option_groups
from verl_rollout_dump.reader import DumpReadError, MissingPackageError, NothingFoundError
from verl_rollout_dump.version import __version__

# Mistakes that a user can correct. They are reported in one message.
_USERS_MISTAKES = (DumpReadError, MissingPackageError, WhereError, OSError)


class _FriendlyErrors(TyperGroup):
    """A group of commands that reports a mistake of the user in one line, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `| head` has read enough
            raise
        except KeyboardInterrupt as error:
            raise typer.Exit(INTERRUPTED) from error
        except NothingFoundError as error:
            typer.echo(f"verl-rollout-dump: {error}", err=True)
            raise typer.Exit(NOTHING_FOUND) from error
        except _USERS_MISTAKES as error:
            if interrupts.happened:  # Ctrl-C, as a library that was interrupted tells it
                raise KeyboardInterrupt from error
            typer.echo(f"verl-rollout-dump: {error}", err=True)
            raise typer.Exit(MISTAKE) from error


app = typer.Typer(
    cls=_FriendlyErrors,
    help="Read the rollout dumps of a training: verl_rollout_dump's, verl's own, and other JSONL or Parquet rollouts.",
    no_args_is_help=True,
    epilog=epilog(),
    rich_markup_mode="markdown",
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,
)


def _show_version(is_asked: bool) -> None:
    """Print the version and exit, if the option is given."""
    if is_asked:
        typer.echo(f"verl-rollout-dump {__version__}")
        raise typer.Exit


@app.callback()
def _common_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Read the rollout dumps of a training: verl_rollout_dump's, verl's own, and other JSONL or Parquet rollouts."""


for command in COMMANDS:
    function = with_option_groups(command.function)
    needs_arguments = any(p.default is p.empty for p in inspect.signature(function).parameters.values())
    register = app.command(
        command.name,
        rich_help_panel=command.panel,
        no_args_is_help=needs_arguments,
        context_settings=dict(command.settings),
    )
    register(function)
