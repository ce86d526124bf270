"""`Store`: the few things that a dump does with a remote store. Only this module knows fsspec.

A file appears whole: object stores show an object when its last byte has come; elsewhere it is sent under another
name and renamed. Whatever goes wrong is a `StoreError`, which is an OSError: the libraries below raise anything.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from verl_rollout_dump.config.urls import protocol_of

fsspec: Any = importlib.import_module("fsspec")  # which has no types
T = TypeVar("T")

WHOLE_AT_ONCE = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl"}  # an upload shows when it is complete
TEMPORARY_SUFFIX = ".tmp"
# One try for a call, and no long waits: whoever calls tries again, and goes on with the spool meanwhile.
S3_OPTIONS = {"config_kwargs": {"retries": {"total_max_attempts": 2}, "connect_timeout": 10, "read_timeout": 60}}
OPTIONS: dict[str, dict[str, Any]] = {"s3": S3_OPTIONS, "s3a": S3_OPTIONS}


class StoreError(OSError):
    """A remote store does not do what it was asked for: it is away, or refuses. The cause is chained."""


def as_store_error(method: Callable[..., T]) -> Callable[..., T]:
    """Let a method of `Store` raise nothing but `StoreError`."""

    @wraps(method)
    def call(store: Store, *args: Any) -> T:
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
        self._is_whole_at_once = protocol_of(url) in WHOLE_AT_ONCE
        self._connect()

    @as_store_error
    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None: there is none."""
        try:
            return bytes(self._files.cat_file(self._path(name)))
        except FileNotFoundError:
            return None

    @as_store_error
    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes; None: there is none."""
        try:
            self._files.invalidate_cache()
            return int(self._files.info(self._path(name))["size"])
        except FileNotFoundError:
            return None

    @as_store_error
    def write(self, name: str, content: bytes) -> None:
        """Put a file there, whole, in the place of what there is."""
        self._place(name, lambda path: self._files.pipe_file(path, content))

    @as_store_error
    def upload(self, local: Path, name: str) -> None:
        """Put a local file there, whole, in the place of what there is."""
        self._place(name, lambda path: self._files.put_file(str(local), path))

    @as_store_error
    def copy(self, name: str, other: str) -> None:
        """Give what a file holds a second name."""
        self._place(other, lambda path: self._files.cp_file(self._path(name), path))

    @as_store_error
    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        try:
            self._files.rm_file(self._path(name))
        except FileNotFoundError:
            return

    def _connect(self) -> None:
        # instances are shared by default, and listings remembered: others write here too
        protocol = protocol_of(self.url)
        given = fsspec.config.conf.get(protocol, {})
        options = {name: value for name, value in OPTIONS.get(protocol, {}).items() if name not in given}
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
