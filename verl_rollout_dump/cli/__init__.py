"""The command `verl-rollout-dump`: one module per command, listed in `commands.COMMANDS`.

This module imports nothing heavy, so that Ctrl-C is quiet from the start; `app` is imported at its first use.
"""

from __future__ import annotations

import signal
from typing import Any


def __getattr__(name: str) -> Any:
    """Import `app`, the typer application (PEP 562)."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from verl_rollout_dump.cli.application import app

    return app


def main() -> None:
    """Run the command. Until `run_quietly` decides what Ctrl-C does, it ends the process at once."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # else a shell has started the command in the background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from verl_rollout_dump.cli.application import app
    from verl_rollout_dump.cli.ending import run_quietly

    run_quietly(lambda: app(prog_name="verl-rollout-dump"))
