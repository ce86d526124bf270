"""Run verl's config app in a process of its own, and read what it told."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from verl_rollout_dump.integrations.verl.probe import MARK

TIMEOUT_SECONDS = 300
# What the probe must not leave behind: Hydra's output directories.
QUIET = ("hydra.output_subdir=null", "hydra/job_logging=disabled", "hydra/hydra_logging=disabled")


@dataclass
class Probe:
    """What the process told, line by line, and what it wrote to stderr."""

    told: list[dict[str, Any]]
    stderr: str

    @property
    def answered(self) -> bool:
        """Whether it came so far as to tell anything."""
        return bool(self.told)

    def first(self, key: str) -> Any:
        """Return the value of the first line that has a key, or None."""
        return next((line[key] for line in self.told if key in line), None)

    def all(self, key: str) -> list[dict[str, Any]]:
        """Return every line that has a key."""
        return [line for line in self.told if key in line]

    def last_error(self) -> str:
        """Return the line of stderr that names what went wrong, for people."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        telling = [line for line in lines if "Error" in line or "Could not" in line or line.startswith("No ")]
        return (telling or lines or [""])[-1]


def run_probe(arguments: Sequence[str]) -> Probe:
    """Run the probe with the arguments of a user's command line."""
    with tempfile.TemporaryDirectory(prefix="rollout-dump-doctor-") as folder:
        places = (f"hydra.run.dir={folder}/run", f"hydra.sweep.dir={folder}/sweep")
        command = [sys.executable, "-m", "verl_rollout_dump.integrations.verl.probe", *arguments, *places, *QUIET]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    lines = [line.removeprefix(MARK) for line in done.stdout.splitlines() if line.startswith(MARK)]
    return Probe([json.loads(line) for line in lines], done.stderr)
