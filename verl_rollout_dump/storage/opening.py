"""Open the directories of a dump, one for each split that is dumped."""

from __future__ import annotations

from pathlib import Path

from verl_rollout_dump.config import DumpConfig
from verl_rollout_dump.config.resolved import as_container
from verl_rollout_dump.config.urls import absolute, is_url
from verl_rollout_dump.errors import DumpError
from verl_rollout_dump.storage.local_directory import LocalDirectory
from verl_rollout_dump.storage.open_directory import OpenDirectory
from verl_rollout_dump.storage.start_errors import cannot_write
from verl_rollout_dump.storage.step_files import VALIDATION_FOLDER, shard_folder
from verl_rollout_dump.storage.sweep_claim import claim_for_job


def open_directories(config: DumpConfig) -> dict[str, OpenDirectory]:
    """Open the directory of each split that has one; relative paths are relative to where the user started the run.

    Returns split -> directory. Raises `DumpError` and `ConfigError`; the directories opened before are closed then.
    """
    opened: dict[str, OpenDirectory] = {}
    try:
        for split, place in directories_of(config).items():
            claim_directory(place)
            opened[split] = _open_directory(place, split, config)
    except BaseException:
        for directory in opened.values():
            directory.end("failed", dict)
            directory.release()
        raise
    return opened


def directories_of(config: DumpConfig) -> dict[str, str]:
    """Return split -> absolute path or URL, for each split that is dumped."""
    if not config.enabled:
        return {}
    given = {"train": config.path.dir, "validation": config.path.validation_dir}
    places = {split: absolute(place) for split, place in given.items() if place}
    if places.get("train") == places.get("validation") and places:
        places["validation"] = f"{places['validation'].rstrip('/')}/{VALIDATION_FOLDER}"
    return places


def claim_directory(place: str) -> None:
    """Claim a directory for the sweep job of this process. Raises `ConfigError`, and `DumpError` if it fails."""
    try:
        claim_for_job(place)
    except OSError as error:
        raise DumpError(cannot_write(place, error)) from error


def _open_directory(place: str, split: str, config: DumpConfig) -> OpenDirectory:
    """Open one directory, a path or a URL. Raises `DumpError`."""
    node = as_container(config)
    if is_url(place):
        from verl_rollout_dump.storage.remote import RemoteDirectory  # imports fsspec, which local dumps do not need

        return RemoteDirectory(place, split, config, node)
    return LocalDirectory(shard_folder(Path(place), config.writer), split, config, node)
