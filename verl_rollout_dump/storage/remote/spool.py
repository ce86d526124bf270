"""The spool: where steps are on this machine until they are in the remote store.

    SPOOL/1/7.jsonl      step 7 of attempt 1, whole, not in the store yet
    SPOOL/run.json       what `run.json` of the store says, or will say
    SPOOL/run.lock       held while a run of this machine writes to that URL

A step's file stays until the store has it. What a run leaves behind is uploaded when the next one starts, or by
`upload_spool(URL)`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from verl_rollout_dump.storage.atomic_files import make_folder
from verl_rollout_dump.storage.step_files import files_by_step


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
        """Return where a file of an attempt stands; makes its folder."""
        make_folder(self.folder / str(attempt))
        return self.folder / str(attempt) / name

    def files(self) -> list[SpooledFile]:
        """Return what waits, in the order in which it was written: by attempt, then by step."""
        attempts = sorted(int(entry.name) for entry in self.folder.iterdir() if entry.name.isdigit())
        return [
            SpooledFile(attempt, step, path)
            for attempt in attempts
            for step, paths in files_by_step(self.folder / str(attempt), self._template).items()
            for path in paths
        ]


def spool_folder(url: str, spool_dir: str | None) -> Path:
    """Return the folder of a URL's spool: below `writer.spool_dir`, or below the user's own cache directory.

    Not below /tmp: that is everybody's, and emptied by a reboot.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    base = Path(spool_dir).expanduser().absolute() if spool_dir else cache / "verl_rollout_dump/spool"
    readable = re.sub(r"[^\w.-]+", "_", url).strip("_")[-60:]
    return base / f"{readable}-{blake2b(url.encode(), digest_size=6).hexdigest()}"
