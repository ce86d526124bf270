"""Check before a training starts that its directories can be written to and that no other run writes there.

What is found here is reported in a second; the dump itself opens its directories much later, in another process.
"""

from __future__ import annotations

import socket
import tempfile
from dataclasses import replace
from pathlib import Path

from verl_rollout_dump.config import DumpConfig
from verl_rollout_dump.config.schema import Mode, WriterConfig
from verl_rollout_dump.config.urls import is_url
from verl_rollout_dump.errors import DumpError
from verl_rollout_dump.storage.atomic_files import make_folder
from verl_rollout_dump.storage.directory_lock import DirectoryLock, refusal
from verl_rollout_dump.storage.lease import parse_owner
from verl_rollout_dump.storage.opening import directories_of
from verl_rollout_dump.storage.start_errors import cannot_reach, cannot_use_spool, cannot_write
from verl_rollout_dump.storage.step_files import RUN_LEASE, shard_folder, shard_url


def check_directories(config: DumpConfig) -> None:
    """Make the directories of a dump and lock each for a moment. Raises `DumpError` where that is impossible."""
    for place in directories_of(config).values():
        check = _check_store if is_url(place) else _check_folder
        for writer in _writers(config.writer):
            check(place, replace(config, writer=writer))


def _writers(writer: WriterConfig) -> list[WriterConfig]:
    """Return the writers that this run starts: all shards if they are Ray actors, else the one that is configured."""
    if writer.mode is not Mode.ray:
        return [writer]
    return [replace(writer, shard=shard) for shard in range(writer.shards)]


def _check_folder(place: str, config: DumpConfig) -> None:
    folder = shard_folder(Path(place), config.writer)
    try:
        make_folder(folder)
        with tempfile.TemporaryFile(dir=folder):  # an old run.lock can be opened where no new file can be made
            DirectoryLock(folder).release()
    except OSError as error:
        raise DumpError(cannot_write(place, error)) from error


def _check_store(place: str, config: DumpConfig) -> None:
    from verl_rollout_dump.storage.remote.spool import spool_folder
    from verl_rollout_dump.storage.remote.store import Store, StoreError  # imports fsspec

    url = shard_url(place, config.writer)
    try:
        spool = spool_folder(url, config.writer.spool_dir)
        make_folder(spool)
        DirectoryLock(spool).release()
        lease = Store(url).read(RUN_LEASE)
    except StoreError as error:
        raise DumpError(cannot_reach(place, error)) from error
    except OSError as error:
        raise DumpError(cannot_use_spool(place, error)) from error
    owner = parse_owner(lease or b"")
    if owner is not None and owner.host == socket.gethostname() and not owner.is_dead():
        raise DumpError(refusal(place, owner))
