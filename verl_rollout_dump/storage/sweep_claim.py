"""Two jobs of one Hydra sweep must not write into one directory: the first one claims it.

Without a claim the second job would look like a resume of the first, and would supersede its files step by step
(hydra-ecosystem/hydra#1817). A later sweep, or the same job started again, may continue in the directory.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from verl_rollout_dump.config.errors import ConfigError
from verl_rollout_dump.config.hydra_job import SweepJob, current_job, own_directory_remedy
from verl_rollout_dump.config.urls import is_url
from verl_rollout_dump.storage.atomic_files import link_if_free, make_folder, rename_over, write_shared_file
from verl_rollout_dump.storage.step_files import SWEEP_CLAIM


class _ClaimPlace(Protocol):
    """Where the claim of a directory is kept. The methods raise OSError."""

    def read(self) -> bytes | None:
        """Return the content; None where no job has claimed the directory."""

    def write_new(self, content: bytes) -> None:
        """Write the content unless another job has already written its own."""

    def replace(self, content: bytes) -> None:
        """Write the content over an older one."""


def claim_for_job(place: str) -> None:
    """Claim a directory (a path or a URL) for the sweep job that runs in this process; outside of sweeps do nothing.

    Raises `ConfigError` where another job of the same sweep has claimed it, and OSError where the claim cannot be
    written.
    """
    ours = current_job()
    if ours is None:
        return
    claim: _ClaimPlace = _StoreClaim(place) if is_url(place) else _FolderClaim(Path(place))
    content = json.dumps(asdict(ours)).encode()
    claim.write_new(content)
    theirs = _parsed(claim.read(), place)
    if theirs is None or theirs.sweep != ours.sweep:  # removed meanwhile, or left by an earlier sweep
        claim.replace(content)
        theirs = _parsed(claim.read(), place)
    if theirs is not None and (theirs.sweep, theirs.job) != (ours.sweep, ours.job):
        raise ConfigError([_refusal(place, ours, theirs)])


def _refusal(place: str, ours: SweepJob, theirs: SweepJob) -> str:
    """Name the two jobs that want one directory, and the remedy."""
    return (
        f"job {ours.job} of this sweep ({' '.join(ours.overrides)}) would write to {place}, where job {theirs.job} "
        f"({' '.join(theirs.overrides)}) already writes. Give each job a directory of its own: {own_directory_remedy()}"
    )


def _parsed(content: bytes | None, place: str) -> SweepJob | None:
    """Return the job that a claim names; raises ConfigError where the content is not a claim."""
    if content is None:
        return None
    try:
        return SweepJob(**json.loads(content))
    except (ValueError, TypeError) as error:
        problem = f"{place}/{SWEEP_CLAIM} is not the claim of a sweep's job ({error})"
        raise ConfigError([f"{problem}. Remove it or choose another directory"]) from error


class _FolderClaim:
    """The claim of a folder on this machine. It is complete from the moment in which it appears."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SWEEP_CLAIM

    def read(self) -> bytes | None:
        """Return the content of the file."""
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None

    def write_new(self, content: bytes) -> None:
        """Write the file unless there is one."""
        make_folder(self._path.parent)
        with contextlib.suppress(FileExistsError):
            write_shared_file(self._path, content, link_if_free)

    def replace(self, content: bytes) -> None:
        """Write the file over an older one."""
        write_shared_file(self._path, content, rename_over)


class _StoreClaim:
    """The claim of a folder in a remote store.

    Stores have no common way to write only where nothing is. Of two jobs that start at the same moment both may
    pass here; the lease of the directory then refuses one of them.
    """

    def __init__(self, url: str) -> None:
        from verl_rollout_dump.storage.remote.store import Store  # imports fsspec

        self._store = Store(url)

    def read(self) -> bytes | None:
        """Return the content of the object."""
        return self._store.read(SWEEP_CLAIM)

    def write_new(self, content: bytes) -> None:
        """Write the object unless there is one."""
        if self._store.read(SWEEP_CLAIM) is None:
            self._store.write(SWEEP_CLAIM, content)

    def replace(self, content: bytes) -> None:
        """Write the object over the older one."""
        self._store.write(SWEEP_CLAIM, content)
