"""`verl-rollout-dump view`: a viewer for the terminal, in textual.

Steps stand on the left with the curve of their scores, the records of a step in the middle by groups, one record on
the right. Only what is on the screen is read: a dump of gigabytes opens at once.
"""

from __future__ import annotations

from verl_rollout_dump.reader import Dump
from verl_rollout_dump.reader.optional_imports import require


def run_viewer(dump: Dump) -> None:
    """Open the viewer and stay until the user leaves it. Raises `MissingPackageError`, `DumpReadError`."""
    require("textual", "view")
    from verl_rollout_dump.viewer.app import ViewerApp
    from verl_rollout_dump.viewer.source import ViewerSource

    with ViewerSource(dump) as source:
        ViewerApp(source).run()
