"""The spool: the folder on this machine in which steps wait for the remote store.

    SPOOL/1/7.jsonl      step 7 of attempt 1, whole, not in the store yet
    SPOOL/run.json       the newest `run.json`, which the store has or will get
    SPOOL/run.lock       locked while a run of this machine writes to the URL

A step's file stays until the store has it. Files that a run leaves behind are uploaded when the next run starts, or
by `upload_spool(URL)`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from verl_rollout_dump.storage.atomic_files import make_folder
from verl_rollout_dump.storage.step_files import cache_folder, files_by_step


@dataclass(frozen=True)
class SpooledFile:
    """A step's file in the spool."""

    attempt: int
    step: int
    path: Path


class Spool:
    """The spool of one URL. The methods raise OSError."""

    def __init__(self, folder: Path, template: str) -> None:
        self.folder = folder
        self._template = template
        make_folder(folder)

    def place(self, attempt: int, name: str) -> Path:
        """Return the path of an attempt's file; makes its folder."""
        make_folder(self.folder / str(attempt))
        return self.folder / str(attempt) / name

    def files(self) -> list[SpooledFile]:
        """Return the files that wait, by attempt and then by step."""
        attempts = sorted(int(entry.name) for entry in self.folder.iterdir() if entry.name.isdigit())
        return [
            SpooledFile(attempt, step, path)
            for attempt in attempts
            for step, paths in files_by_step(self.folder / str(attempt), self._template).items()
            for path in paths
        ]


def spool_folder(url: str, spool_dir: str | None) -> Path:
    """Return the folder of a URL's spool: below `writer.spool_dir`, or below the user's cache directory.

    It is not below /tmp, which all users share and a reboot empties.
    """
    base = Path(spool_dir).expanduser().absolute() if spool_dir else cache_folder() / "spool"
    readable = re.sub(r"[^\w.-]+", "_", url).strip("_")[-60:]
    return base / f"{readable}-{blake2b(url.encode(), digest_size=6).hexdigest()}"
