"""`run.json`: what wrote a dump, and the attempts that did.

    {"format": 1, "state": "complete", "split": "train",
     "versions": {"verl_rollout_dump": "0.1.0", "python": "3.11.7", "verl": "0.9.1", ...},
     "rollout_dump": {the resolved node},
     "attempts": [{"attempt": 1, "state": "complete", "started": ISO 8601, "ended": ISO 8601 or null,
                   "host": ..., "pid": ..., "first_step": 1,
                   "steps": "1-100", "failed": "", "dropped": "57",    (not written: by a fault, by a full queue)
                   "pending": "",      (handed over and none of these; in an ended attempt these steps are lost)
                   "kept_before": {"98": 1},                           (older files that were in superseded/ already)
                   "superseded": "98-100"}],                           (no part of the lineage: see attempts.py)
     "uid_form": "{uid}_{session}_{output}",                           (only if the uids name single rollouts)
     "steps_of_others": "",                                            (files that were there before attempt 1)
     "report": {counts of the last attempt}}

States: `running`, `complete`, `failed`. An attempt that is still `running` when the next one starts was killed, and
becomes `failed`. The file is replaced atomically after every step.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import socket
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import orjson

from verl_rollout_dump.storage.atomic_files import Sync, replace_file
from verl_rollout_dump.storage.attempts import Attempt, State, superseded_steps, writer_of
from verl_rollout_dump.storage.step_files import RUN_RECORD, unreadable_record
from verl_rollout_dump.storage.steps import format_steps, parse_steps
from verl_rollout_dump.storage.timestamps import now
from verl_rollout_dump.version import __version__

logger = logging.getLogger(__name__)

_FORMAT = 1
# `uid_form`, if uids identify single rollouts: verl's newer trainer appends two numbers to the uid of the prompt.
ROLLOUT_UIDS = "{uid}_{session}_{output}"
# Module -> distribution; `run.json` has the versions of the modules that are loaded.
_VERSIONED = {
    "verl": "verl",
    "trl": "trl",
    "torch": "torch",
    "transformers": "transformers",
    "ray": "ray",
    "numpy": "numpy",
    "orjson": "orjson",
    "hydra": "hydra-core",
    "omegaconf": "omegaconf",
}


class RunRecord:
    """The content of `run.json`, with the current attempt as its last.

    `earlier` is the content that was there before, or None. Raises KeyError, TypeError and ValueError if it is not
    the content of a `run.json`.
    """

    def __init__(self, split: str, node: dict[str, Any], earlier: bytes | None) -> None:
        content = json.loads(earlier) if earlier is not None else {"attempts": []}
        self.earlier = [Attempt.from_json(entry) for entry in content["attempts"]]
        self.steps_of_others = parse_steps(content.get("steps_of_others", ""))
        self.uid_form: str | None = content.get("uid_form")
        self._split = split
        self._node = node
        number = max((attempt.attempt for attempt in self.earlier), default=0) + 1
        self.current = Attempt(number, started=now(), host=socket.gethostname(), pid=os.getpid())

    @property
    def attempts(self) -> list[Attempt]:
        """All attempts, in the order in which they started."""
        return [*self.earlier, self.current]

    def writer_of(self, step: int) -> int:
        """Return the number of the last attempt that wrote a step, or 0 (`NOBODY`)."""
        return writer_of(self.attempts, step)

    @property
    def died(self) -> Attempt | None:
        """The attempt before this one if it was killed, until `end_the_dead` is called; else None."""
        return self.earlier[-1] if self.earlier and self.earlier[-1].state == "running" else None

    def end_the_dead(self, handed_over: Iterable[int] = ()) -> None:
        """End earlier attempts that are still `running` as failed: this attempt holds the lock, so they were killed.

        `handed_over` are the steps that the last of them took.
        """
        if self.died is not None:
            died = self.died
            died.pending = (died.pending | set(handed_over)) - died.steps - died.failed - died.dropped
        for attempt in self.earlier:
            if attempt.state == "running":
                attempt.state = "failed"

    def end(self, state: State) -> None:
        """End the current attempt."""
        self.current.state = state
        self.current.ended = now()

    def content(self, report: dict[str, Any]) -> bytes:
        """Return the bytes of the file; `report` is that of the current attempt."""
        superseded = superseded_steps(self.attempts)
        content = {
            "format": _FORMAT,
            "state": self.current.state,
            "split": self._split,
            "versions": _versions(),
            "rollout_dump": self._node,
            "attempts": [attempt.as_json(superseded[attempt.attempt]) for attempt in self.attempts],
            **({"uid_form": self.uid_form} if self.uid_form else {}),
            "steps_of_others": format_steps(self.steps_of_others),
            "report": report,
        }
        return _encode(content)

    def content_of_earlier(self, content: bytes | None) -> bytes:
        """Return the bytes of a `run.json` with the earlier attempts updated and without the current one."""
        superseded = superseded_steps(self.earlier)
        attempts = [attempt.as_json(superseded[attempt.attempt]) for attempt in self.earlier]
        return json.dumps({**json.loads(content or b"{}"), "attempts": attempts}, indent=1).encode() + b"\n"

    def save(self, folder: Path, report: dict[str, Any], sync: Sync) -> None:
        """Write the file atomically. Raises OSError."""
        replace_file(folder / RUN_RECORD, self.content(report), sync)


def read_content(folder: Path) -> bytes | None:
    """Return the content of a folder's `run.json`, or None without one. A symbolic link is not followed."""
    path = folder / RUN_RECORD
    if path.is_symlink():
        return b"(a symbolic link)"
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def open_record(folder: Path, split: str, node: dict[str, Any]) -> RunRecord:
    """Return the record of a folder. A `run.json` that cannot be read is kept under another name. Raises OSError."""
    earlier = read_content(folder)
    try:
        return RunRecord(split, node, earlier)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        path = folder / RUN_RECORD
        kept = unreadable_record(path)
        os.replace(path, kept)
        logger.warning("%s cannot be read (%s); it is kept as %s and a new one is begun", path, error, kept.name)
        return RunRecord(split, node, None)


@cache  # parsing the metadata of a package costs more than writing a small step
def _version_of(module: str, distribution: str) -> str:
    """Return the version of a loaded module."""
    try:
        return version(distribution)
    except PackageNotFoundError:  # run from a checkout that was never installed
        return str(getattr(sys.modules[module], "__version__", "unknown"))


def _encode(content: dict[str, Any]) -> bytes:
    """Return the bytes of `run.json`; lone surrogates (in a path of the config) are replaced."""
    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    try:
        return orjson.dumps(content, option=option)
    except TypeError:  # lone surrogates
        return json.dumps(content, indent=2, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _versions() -> dict[str, str]:
    """Return the versions of this package, of Python, and of the loaded modules in `_VERSIONED`."""
    loaded = {"verl_rollout_dump": __version__, "python": platform.python_version()}
    for module, distribution in _VERSIONED.items():
        if module in sys.modules:
            loaded[module] = _version_of(module, distribution)
    return loaded
