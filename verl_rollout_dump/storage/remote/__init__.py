"""Dumps in remote stores (`path.dir=s3://bucket/run`), through fsspec, through a spool on this machine."""

from verl_rollout_dump.storage.remote.remote_directory import RemoteDirectory
from verl_rollout_dump.storage.remote.store import Store, StoreError
from verl_rollout_dump.storage.remote.upload import upload_spool

__all__ = ["RemoteDirectory", "Store", "StoreError", "upload_spool"]
