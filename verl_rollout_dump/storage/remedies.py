"""What to do about a fault of the file system, for the messages about it."""

from __future__ import annotations

import errno

_REMEDIES = {
    errno.ENOSPC: "Free space on that disk; steps are written again from then on",
    errno.EDQUOT: "Free space or have the quota raised; steps are written again from then on",
    errno.ENOENT: "The folder is gone: find out what removes it, or choose another directory",
    errno.ENOTDIR: "A file has taken the place of a folder: move it away, or choose another directory",
    errno.EEXIST: "A file has taken the place of a folder: move it away, or choose another directory",
    errno.EACCES: "Give this user permission to write there, or choose another directory",
    errno.EPERM: "Give this user permission to write there, or choose another directory",
    errno.EROFS: "Mount the file system for writing, or choose another directory",
    errno.EIO: "Check the disk and its cables, or the server of a network file system",
    errno.ESTALE: "Mount the network file system again",
    errno.EMFILE: "Raise the limit of open files (ulimit -n)",
    errno.ENAMETOOLONG: "Choose a shorter rollout_dump.path.filename",
    errno.EFBIG: "Choose a file system that takes larger files, or write fewer records (rollout_dump.sampling)",
}


def add_remedy(error: OSError) -> None:
    """Add what to do to the text of an error; errors of other kinds stay as they are."""
    remedy = _REMEDIES.get(error.errno or 0)
    if remedy is not None and error.strerror is not None and remedy not in error.strerror:
        error.strerror = f"{error.strerror}. {remedy}"
