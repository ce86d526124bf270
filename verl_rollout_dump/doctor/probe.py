"""Run verl's config app in a process of its own, and read the facts that it prints."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from verl_rollout_dump.integrations.verl.probe import MARK

_TIMEOUT_SECONDS = 300
# Overrides that keep the probe from leaving Hydra's output directories behind.
_QUIET = ("hydra.output_subdir=null", "hydra/job_logging=disabled", "hydra/hydra_logging=disabled")


@dataclass
class Probe:
    """The facts about a command line, in the order in which they were found, and what the process wrote to stderr."""

    facts: list[dict[str, Any]]
    stderr: str = ""
    # The key that a user sets to name the directory of the dump.
    directory_key: str = "trainer.rollout_data_dir"

    def first(self, key: str) -> Any:
        """Return the value of the first fact that has a key, or None."""
        return next((fact[key] for fact in self.facts if key in fact), None)

    def all(self, key: str) -> list[dict[str, Any]]:
        """Return every fact that has a key."""
        return [fact for fact in self.facts if key in fact]

    def error(self) -> str:
        """Return what ended the process early; empty if nothing did.

        That is the exception that the process reported or, if it died before it could, its last words.
        """
        reported = self.first("import_error") or self.first("error")
        last_words = [line.strip() for line in self.stderr.splitlines() if line.strip()][-1:]
        return str(reported or "" if self.facts else (last_words or ["the process died without a word"])[0])


def run_probe(arguments: Sequence[str]) -> Probe:
    """Run the probe with the arguments of a user's command line."""
    with tempfile.TemporaryDirectory(prefix="rollout-dump-doctor-") as folder:
        places = (f"hydra.run.dir={folder}/run", f"hydra.sweep.dir={folder}/sweep")
        words = with_overrides(arguments, [*places, *_QUIET])
        command = [sys.executable, "-m", "verl_rollout_dump.integrations.verl.probe", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
    lines = [line.removeprefix(MARK) for line in done.stdout.splitlines() if line.startswith(MARK)]
    return Probe([json.loads(line) for line in lines], done.stderr)


def with_overrides(arguments: Sequence[str], more: Sequence[str]) -> list[str]:
    """Return a command line with more overrides, beside those that are there: Hydra takes no flag in between."""
    overrides = [i for i, word in enumerate(arguments) if "=" in word and not word.startswith("-")]
    place = overrides[-1] + 1 if overrides else len(arguments)
    return [*arguments[:place], *more, *arguments[place:]]
