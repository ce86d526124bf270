"""`view`: the viewer."""

from __future__ import annotations

import sys

from verl_rollout_dump.cli.arguments import Directory
from verl_rollout_dump.reader import DumpReadError


def view(directory: Directory) -> None:
    """Look at a dump in the terminal: steps, groups, records; search, filter, sort, compare, follow. Press ? for help.

    Example:

    - `verl-rollout-dump view DIR`
    """
    from verl_rollout_dump.viewer import run_viewer

    if not sys.stdout.isatty():
        raise DumpReadError("view needs a terminal; to print records use: verl-rollout-dump show")
    run_viewer(directory)
