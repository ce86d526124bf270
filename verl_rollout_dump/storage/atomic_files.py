"""Files that are whole or not there. Nothing else in this package opens a file of a dump for writing.

A step is written to `7.jsonl.tmp` in the same folder and renamed when it is complete: under its final name there
is never a part of a file. The temporary name does not end in `.jsonl`, since verl's viewer takes every file that
does for a step. Mode bits follow the umask (not the 0600 of `mkstemp`), and are never writable for everybody. No
symbolic link is followed: a link under one of our names is replaced, not written through.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from verl_rollout_dump.storage.compression import Pieces, PlainStream, Stream

TEMPORARY_SUFFIX = ".tmp"
MAX_PIECES = 1024  # IOV_MAX of Linux and macOS: what one writev takes
FILE_MODE = 0o664  # before the umask takes its bits
FOLDER_MODE = 0o775
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)

# Gives a complete temporary file (first) its name (second); raises OSError.
Placement = Callable[[Path, Path], None]


def rename_over(temporary: Path, path: Path) -> None:
    """Give a file its name, in the place of what has it now. Raises OSError."""
    os.replace(temporary, path)


def write_file(path: Path, pieces: Iterable[Pieces], stream: Stream, sync: Sync, place: Placement = rename_over) -> int:
    """Write a file atomically and return its size in bytes.

    `pieces` are lists of bytes, each written by as few system calls as possible. An OSError (no space, no
    permission, a device that fails at write, at sync or at close) leaves no file behind, and is passed on. After a
    failed fsync nothing of the file is used again: the kernel may have dropped its dirty pages.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    with new_file(temporary) as descriptor:
        size = 0
        for some in pieces:
            size += write_all(descriptor, stream.compress(some))
        size += write_all(descriptor, [stream.finish()])
        sync.file(descriptor)
    try:
        place(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync.folder(path.parent)
    return size


def replace_file(path: Path, content: bytes, sync: Sync) -> None:
    """Put new content in the place of a file, whole or not at all. Raises OSError."""
    write_file(path, [[content]], PlainStream(), sync)


@contextmanager
def new_file(path: Path) -> Iterator[int]:
    """Create a file for writing; close it, and remove it where that or the body fails.

    What stands under the name is what a failed attempt could not remove: the lock of the directory is ours.
    """
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW, FILE_MODE)
    is_open = True
    try:
        yield descriptor
        is_open = False
        os.close(descriptor)  # some file systems report a failed write only here
    except BaseException:
        if is_open:
            os.close(descriptor)
        path.unlink(missing_ok=True)
        raise


def make_folder(path: Path) -> None:
    """Make a folder and those above it, by the umask, and never writable for everybody. Raises OSError."""
    if not path.is_dir():
        if path.parent != path:
            make_folder(path.parent)
        try:
            path.mkdir(FOLDER_MODE)
        except FileExistsError:
            if not path.is_dir():
                raise


def make_folder_within(folder: Path, name: str) -> Path:
    """Make a folder inside a dump and return it; a symbolic link there is refused, since it may lead anywhere.

    Raises OSError.
    """
    made = folder / name
    if made.is_symlink():
        raise OSError(f"{made} is a symbolic link; it is not followed. Remove it, and start again")
    make_folder(made)
    return made


def write_all(descriptor: int, pieces: Pieces) -> int:
    """Write every byte of the pieces, however few the kernel takes at once; return how many there were."""
    total = 0
    for start in range(0, len(pieces), MAX_PIECES):
        total += write_vector(descriptor, pieces[start : start + MAX_PIECES])
    return total


def write_vector(descriptor: int, pieces: Pieces) -> int:
    """Write at most `MAX_PIECES` pieces, going on after short writes."""
    size = sum(map(len, pieces))
    done = os.writev(descriptor, pieces) if size else 0
    if done < size:
        rest = memoryview(b"".join(pieces))
        while done < size:
            done += os.write(descriptor, rest[done:])
    return size


class Sync:
    """Leaves it to the system when bytes reach the device."""

    def file(self, descriptor: int) -> None:
        """Called when a file is complete, before it gets its name."""

    def folder(self, path: Path) -> None:
        """Called when a file has its name."""


class DurableSync(Sync):
    """Waits for the device: what was written survives a power failure."""

    def file(self, descriptor: int) -> None:
        """Flush the file."""
        os.fsync(descriptor)

    def folder(self, path: Path) -> None:
        """Flush the folder, in which the name stands."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
