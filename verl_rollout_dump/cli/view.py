"""`view`: the viewer."""

from __future__ import annotations

import sys

from verl_rollout_dump.cli.arguments import Directory
from verl_rollout_dump.cli.opening import opened_dump
from verl_rollout_dump.reader import DumpReadError, FieldNames
from verl_rollout_dump.reader.field_names import DEFAULT_FIELDS


def view(directory: Directory, fields: FieldNames = DEFAULT_FIELDS) -> None:
    """Browse a dump in the terminal: steps, groups, records; search, filter, sort, compare, follow. Press ? for help.

    Example:

    - `verl-rollout-dump view DIR`
    """
    from verl_rollout_dump.viewer import run_viewer

    if not sys.stdout.isatty():
        raise DumpReadError("view needs a terminal; to print records use: verl-rollout-dump show")
    with opened_dump(directory, fields) as dump:
        run_viewer(dump)
