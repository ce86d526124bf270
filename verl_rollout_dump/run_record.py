"""`run.json`: what wrote a dump, and the attempts that did.

    {"format": 1, "state": "complete", "split": "train",
     "versions": {"verl_rollout_dump": "0.1.0", "python": "3.11.7", "verl": "0.9.1", ...},
     "rollout_dump": {the resolved node},
     "attempts": [{"attempt": 1, "state": "complete", "started": ISO 8601, "ended": ISO 8601 or null,
                   "host": ..., "pid": ..., "steps": "1-100"}],
     "report": {counts of the last attempt}}

States: `running`, `complete`, `failed`. An attempt that is still `running` when the next one starts has died
without a word, and becomes `failed`. The file is replaced atomically after every step.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import socket
import sys
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from verl_rollout_dump.step_ranges import format_steps, parse_steps
from verl_rollout_dump.version import __version__

logger = logging.getLogger(__name__)

FILENAME = "run.json"
FORMAT = 1
State = Literal["running", "complete", "failed"]
# Module -> distribution whose version is told, where the module is in use.
VERSIONED = {
    "verl": "verl",
    "torch": "torch",
    "transformers": "transformers",
    "ray": "ray",
    "numpy": "numpy",
    "orjson": "orjson",
    "hydra": "hydra-core",
    "omegaconf": "omegaconf",
}


@dataclass
class Attempt:
    """One start of a run that writes into a dump."""

    attempt: int
    state: State = "running"
    started: str = ""
    ended: str | None = None
    host: str = ""
    pid: int = 0
    steps: set[int] = field(default_factory=set)

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> Attempt:
        """Read an attempt; one that is still running here has died."""
        attempt = cls(**{**entry, "steps": parse_steps(entry["steps"])})
        if attempt.state == "running":
            attempt.state = "failed"
        return attempt

    def as_json(self) -> dict[str, Any]:
        """Return the attempt as it stands in the file."""
        return {**vars(self), "steps": format_steps(self.steps)}


class RunRecord:
    """The content of `run.json`, with the attempt that goes on now as its last."""

    def __init__(self, directory: Path, split: str, node: dict[str, Any]) -> None:
        self.path = directory / FILENAME
        self._split = split
        self._node = node
        self.earlier = read_attempts(self.path)
        number = max((attempt.attempt for attempt in self.earlier), default=0) + 1
        self.current = Attempt(number, started=now(), host=socket.gethostname(), pid=os.getpid())

    def writer_of(self, step: int) -> int:
        """Return the number of the last attempt that wrote a step; 0: none that is on record."""
        attempts = [*self.earlier, self.current]
        return max((attempt.attempt for attempt in attempts if step in attempt.steps), default=0)

    def end(self, state: State) -> None:
        """Note that the attempt is over."""
        self.current.state = state
        self.current.ended = now()

    def save(self, report: dict[str, Any]) -> None:
        """Write the file, whole or not at all."""
        content = {
            "format": FORMAT,
            "state": self.current.state,
            "split": self._split,
            "versions": versions(),
            "rollout_dump": self._node,
            "attempts": [attempt.as_json() for attempt in [*self.earlier, self.current]],
            "report": report,
        }
        temporary = self.path.with_name(FILENAME + ".tmp")
        temporary.write_bytes(json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        os.replace(temporary, self.path)


def read_attempts(path: Path) -> list[Attempt]:
    """Return the attempts on record. A file that cannot be read is kept beside, under another name."""
    try:
        return [Attempt.from_json(entry) for entry in json.loads(path.read_bytes())["attempts"]]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        aside = path.with_name(f"{FILENAME}.unreadable-{datetime.now().strftime('%Y%m%dT%H%M%S%f')}")
        os.replace(path, aside)
        logger.warning("%s cannot be read (%s); it is kept as %s and a new one is begun", path, error, aside.name)
        return []


def versions() -> dict[str, str]:
    """Return the versions of this package, Python, and what is loaded of what matters."""
    found = {"verl_rollout_dump": __version__, "python": platform.python_version()}
    for module, distribution in VERSIONED.items():
        if module in sys.modules:
            try:
                found[module] = version(distribution)
            except PackageNotFoundError:  # run from a checkout that was never installed
                found[module] = str(getattr(sys.modules[module], "__version__", "unknown"))
    return found


def now() -> str:
    """Return the present time in ISO 8601, UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
