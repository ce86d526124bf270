"""Directories that are URLs of remote stores, such as `s3://bucket/run`. fsspec is imported only for a URL."""

from __future__ import annotations

import importlib
from pathlib import Path

from verl_rollout_dump.config.hydra_job import starting_folder

_SCHEME = "://"
_KNOWN = "a directory, or a URL of a store that fsspec knows (s3://, gs://, az://, hdfs://, memory://)"
_WITHOUT_BUCKET = ("memory", "file", "local")


def is_url(directory: str | None) -> bool:
    """Return whether a directory is the URL of a store."""
    return directory is not None and _SCHEME in directory


def absolute(place: str) -> str:
    """Return a URL as it is, and a relative directory as seen from where the user started the command."""
    return place if is_url(place) else str(starting_folder() / Path(place).expanduser())


def protocol_of(url: str) -> str:
    """Return the part of a URL that names the kind of store."""
    return url.partition(_SCHEME)[0]


def url_problem(directory: str) -> str | None:
    """Return what was expected instead of a directory that cannot be used; None if it can be used."""
    if not is_url(directory):
        return None
    protocol, _, rest = directory.partition(_SCHEME)
    if protocol not in _WITHOUT_BUCKET and (not rest or rest.startswith("/")) and protocol != "hdfs":
        return f"a URL with a bucket, such as {protocol}://bucket/run"
    try:
        fsspec = importlib.import_module("fsspec")
    except ImportError:
        return "a directory: URLs need the package fsspec (pip install 'verl-rollout-dump[remote]')"
    try:
        fsspec.get_filesystem_class(protocol)
    except ValueError:
        return _KNOWN
    except ImportError as error:
        return f"a store whose package is installed ({error})"
    return None
