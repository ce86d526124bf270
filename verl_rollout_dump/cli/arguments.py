"""Arguments and options that several commands have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="The dump: DIR of trainer.rollout_data_dir=DIR, or one file of it.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts instead.")]
Steps = Annotated[
    str | None, typer.Option("--step", "-s", metavar="STEPS", help='One step or several: "7", "1-3,9", "last".')
]
Workers = Annotated[int, typer.Option(min=1, help="Processes that read a large dump.")]
WORKERS = min(4, os.cpu_count() or 1)
