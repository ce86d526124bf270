"""`verl-rollout-dump view`: a viewer for the terminal, in textual.

The steps and the curve of their scores are on the left, the records of a step by groups in the middle, one record on
the right. Only what is on the screen is read, so a dump of gigabytes opens at once.
"""

from __future__ import annotations

from verl_rollout_dump.reader import Dump
from verl_rollout_dump.reader.optional_imports import require


def run_viewer(dump: Dump) -> None:
    """Run the viewer until the user quits. Raises `MissingPackageError`, `DumpReadError`."""
    require("textual", "view")
    from verl_rollout_dump.viewer.app import ViewerApp
    from verl_rollout_dump.viewer.source import ViewerSource

    with ViewerSource(dump) as source:
        ViewerApp(source).run()
