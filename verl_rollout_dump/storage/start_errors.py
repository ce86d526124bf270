"""The messages for a dump that cannot start: where, why, and what to do."""

from __future__ import annotations


def cannot_write(path: object, error: OSError) -> str:
    """Return the message for a directory that cannot be written."""
    return (
        f"cannot write rollouts to {path}: {error.strerror or error}. Make the directory writable for this "
        "user, or choose another with trainer.rollout_data_dir=DIR"
    )


def cannot_reach(url: str, error: Exception) -> str:
    """Return the message for a remote store that fails."""
    return (
        f"cannot write rollouts to {url}: {error}. Check that the store is reachable and that this user may write "
        "there, or choose a directory with trainer.rollout_data_dir=DIR"
    )


def cannot_use_spool(url: str, error: OSError) -> str:
    """Return the message for the spool of a remote store that cannot be written."""
    return f"cannot use the spool of {url}: {error}. Choose another place for it with rollout_dump.writer.spool_dir=DIR"
