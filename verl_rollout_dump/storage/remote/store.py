"""`Store`: a folder in a remote store. Only this module uses fsspec.

Files appear whole: object stores show an object once it is complete; in other stores a file is written under a
temporary name and renamed. Every error is raised as a `StoreError`, since the libraries below raise many types.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from verl_rollout_dump.config.urls import protocol_of
from verl_rollout_dump.storage.step_files import TEMPORARY_SUFFIX

fsspec: Any = importlib.import_module("fsspec")  # it has no type hints
_T = TypeVar("_T")

_WHOLE_AT_ONCE = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl"}  # an object is visible once it is complete
# One try per call and short timeouts: callers try again, and use the spool meanwhile.
_S3_OPTIONS = {"config_kwargs": {"retries": {"total_max_attempts": 2}, "connect_timeout": 10, "read_timeout": 60}}
_OPTIONS: dict[str, dict[str, Any]] = {"s3": _S3_OPTIONS, "s3a": _S3_OPTIONS}


class StoreError(OSError):
    """A remote store is unreachable or refuses a request. The cause is chained."""


def _as_store_error(method: Callable[..., _T]) -> Callable[..., _T]:
    """Decorate a method of `Store` to raise `StoreError` for any exception."""

    @wraps(method)
    def call(store: Store, *args: Any) -> _T:
        try:
            return method(store, *args)
        except StoreError:
            raise
        except Exception as error:
            raise StoreError(f"{store.url}: {type(error).__name__}: {error}") from error

    return call


class Store:
    """A folder of a remote store. Names are relative to it; all methods raise `StoreError`."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._is_whole_at_once = protocol_of(url) in _WHOLE_AT_ONCE
        self._connect()

    @_as_store_error
    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None without one."""
        try:
            return bytes(self._files.cat_file(self._path(name)))
        except FileNotFoundError:
            return None

    @_as_store_error
    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes, or None without one."""
        try:
            self._files.invalidate_cache()
            return int(self._files.info(self._path(name))["size"])
        except FileNotFoundError:
            return None

    @_as_store_error
    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically, over an earlier one."""
        self._place(name, lambda path: self._files.pipe_file(path, content))

    @_as_store_error
    def upload(self, local: Path, name: str) -> None:
        """Upload a local file atomically, over an earlier one."""
        self._place(name, lambda path: self._files.put_file(str(local), path))

    @_as_store_error
    def copy(self, name: str, other: str) -> None:
        """Copy a file to another name."""
        self._place(other, lambda path: self._files.cp_file(self._path(name), path))

    @_as_store_error
    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        try:
            self._files.rm_file(self._path(name))
        except FileNotFoundError:
            return

    def _connect(self) -> None:
        # no shared instance and no cached listings, since other processes write here too
        protocol = protocol_of(self.url)
        given = fsspec.config.conf.get(protocol, {})
        options = {name: value for name, value in _OPTIONS.get(protocol, {}).items() if name not in given}
        try:
            self._files, self._root = fsspec.core.url_to_fs(
                self.url, skip_instance_cache=True, use_listings_cache=False, **options
            )
        except Exception as error:
            raise StoreError(f"{self.url}: {type(error).__name__}: {error}") from error

    def _place(self, name: str, put: Callable[[str], object]) -> None:
        path = self._path(name)
        if self._is_whole_at_once:
            put(path)
            return
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        put(path + TEMPORARY_SUFFIX)
        if self._files.exists(path):
            self._files.rm_file(path)
        self._files.mv(path + TEMPORARY_SUFFIX, path)

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"
