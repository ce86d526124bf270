"""Opening the directories of a dump: one for each split that is to be dumped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from verl_rollout_dump.config import DumpConfig
from verl_rollout_dump.config.resolved import as_container
from verl_rollout_dump.config.urls import absolute, is_url
from verl_rollout_dump.errors import DumpError
from verl_rollout_dump.storage.attempts import State
from verl_rollout_dump.storage.compression import Pieces
from verl_rollout_dump.storage.local_directory import DumpDirectory, cannot_write
from verl_rollout_dump.storage.run_record import RunRecord
from verl_rollout_dump.storage.step_files import shard_folder
from verl_rollout_dump.storage.sweep_claim import claim_for_job

VALIDATION_FOLDER = "validation"


class OpenDirectory(Protocol):
    """A directory, here or in a remote store, into which one attempt writes."""

    path: Path
    record: RunRecord
    # Steps that were handed over and are not in a file yet.
    handed_over: set[int]

    @property
    def waiting_steps(self) -> list[int]:
        """Steps whose files wait here for a remote store."""

    def write_step(self, step: int, pieces: Iterable[Pieces]) -> int:
        """Write the file of a step and return its size in bytes. Raises OSError."""

    def save_record(self, report: dict[str, Any]) -> None:
        """Write `run.json`. Raises OSError."""

    def end(self, state: State, report: Callable[[], dict[str, Any]]) -> None:
        """End the attempt. Raises OSError where `run.json` cannot be written."""

    def release(self) -> None:
        """Give the lock back."""


def open_directories(config: DumpConfig) -> dict[str, OpenDirectory]:
    """Open the directory of each split that is to be dumped; relative paths are relative to where the run stands.

    Raises `DumpError`; then none is open.
    """
    opened: dict[str, OpenDirectory] = {}
    try:
        for split, place in directories_of(config).items():
            claim(place)
            opened[split] = open_directory(place, split, config)
    except BaseException:
        for directory in opened.values():
            directory.end("failed", dict)
            directory.release()
        raise
    return opened


def directories_of(config: DumpConfig) -> dict[str, str]:
    """Return the absolute path or URL of each split that is to be dumped, by split."""
    if not config.enabled:
        return {}
    given = {"train": config.path.dir, "validation": config.path.validation_dir}
    places = {split: absolute(place) for split, place in given.items() if place}
    if places.get("train") == places.get("validation") and places:
        places["validation"] = f"{places['validation'].rstrip('/')}/{VALIDATION_FOLDER}"
    return places


def claim(place: str) -> None:
    """Claim a directory for the sweep job of this process. Raises `ConfigError`, and `DumpError` for an OSError."""
    try:
        claim_for_job(place)
    except OSError as error:
        raise DumpError(cannot_write(place, error)) from error


def open_directory(place: str, split: str, config: DumpConfig) -> OpenDirectory:
    """Open one directory. Raises `DumpError`."""
    node = as_container(config)
    if is_url(place):
        from verl_rollout_dump.storage.remote import (
            RemoteDirectory,  # brings fsspec in, which a local dump does without
        )

        return RemoteDirectory(place, split, config, node)
    return DumpDirectory(shard_folder(Path(place), config.writer), split, config, node)
