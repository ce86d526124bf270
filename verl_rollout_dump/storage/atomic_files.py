"""Files that appear whole under their name, or not at all.

Every file of a dump is written through this module, except `run.lock` and `run.pending`, which stay open.

A file is written under a temporary name in the same folder and renamed when it is complete. The temporary name does
not end in `.jsonl`, since verl's viewer reads every file that does. Mode bits follow the umask (not the 0600 of
`mkstemp`) and are never writable for everybody. Symbolic links are not followed: a link with one of our names is
replaced, not written through.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from verl_rollout_dump.storage.compression import Codec, Pieces, Plain
from verl_rollout_dump.storage.step_files import own_temporary_path, temporary_path

_MAX_PIECES = 1024  # IOV_MAX of Linux and macOS: what one writev takes
FILE_MODE = 0o664  # before the umask takes its bits
_FOLDER_MODE = 0o775
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)

# Gives a complete temporary file (first) its name (second); raises OSError.
Placement = Callable[[Path, Path], None]


def rename_over(temporary: Path, path: Path) -> None:
    """Give a file its name; a file that has the name is replaced. Raises OSError."""
    os.replace(temporary, path)


def link_if_free(temporary: Path, path: Path) -> None:
    """Give a file its name unless another file has it; raises FileExistsError then, and other OSErrors."""
    os.link(temporary, path)
    temporary.unlink()


@contextmanager
def replacing(
    path: Path, place: Placement = rename_over, beside: Callable[[Path], Path] = own_temporary_path
) -> Iterator[Path]:
    """Yield a temporary path to write; at the end of the block the file there gets the name `path`.

    If the block or the naming fails, what was written is removed. `beside` gives the temporary path. Raises OSError.
    """
    temporary = beside(path)
    try:
        yield temporary
        place(temporary, path)
    except BaseException:
        _remove(temporary)
        raise


def write_file(
    path: Path,
    pieces: Iterable[Pieces],
    codec: Codec,
    sync: Sync,
    place: Placement = rename_over,
    before: Iterable[Pieces] = (),
) -> int:
    """Write a file atomically and return its size in bytes.

    `pieces` are lists of bytes, each written by as few system calls as possible. `before` comes first, and is not
    compressed again. An OSError (no space, no
    permission, a device that fails at write, at sync or at close) leaves no file behind, and is passed on. After a
    failed fsync the file is not used again: the kernel may have dropped its dirty pages.
    """
    with replacing(path, place, beside=temporary_path) as temporary, _new_file(temporary) as descriptor:
        size = sum(write_all(descriptor, some) for some in before)
        for some in pieces:
            size += write_all(descriptor, codec.compress(some))
        size += write_all(descriptor, [codec.finish()])
        sync.file(descriptor)
    sync.folder(path.parent)
    return size


def replace_file(path: Path, content: bytes, sync: Sync) -> None:
    """Write new content over a file, atomically. Raises OSError."""
    write_file(path, [[content]], Plain(), sync)


def write_shared_file(path: Path, content: bytes, place: Placement) -> None:
    """Write a file that other processes may write at the same time, atomically. Raises OSError."""
    with replacing(path, place) as temporary, _new_file(temporary) as descriptor:
        write_all(descriptor, [content])


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _new_file(path: Path) -> Iterator[int]:
    """Create a file for writing and yield its descriptor; close it, and remove it if that or the block fails.

    A file that has the name is removed first: a failed attempt left it, since the lock of the directory is ours.
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
    """Make a folder and its parents; modes follow the umask and are never writable for everybody. Raises OSError."""
    if not path.is_dir():
        if path.parent != path:
            make_folder(path.parent)
        try:
            path.mkdir(_FOLDER_MODE)
        except FileExistsError:
            if not path.is_dir():
                raise


def make_folder_within(folder: Path, name: str) -> Path:
    """Make a folder inside a dump and return it. Raises OSError, also for a symbolic link: it may lead anywhere."""
    made = folder / name
    if made.is_symlink():
        raise OSError(f"{made} is a symbolic link; it is not followed. Remove it and start again")
    make_folder(made)
    return made


def write_all(descriptor: int, pieces: Pieces) -> int:
    """Write every byte of the pieces, after short writes too; return their size in bytes."""
    total = 0
    for start in range(0, len(pieces), _MAX_PIECES):
        total += _write_vector(descriptor, pieces[start : start + _MAX_PIECES])
    return total


def _write_vector(descriptor: int, pieces: Pieces) -> int:
    """Write at most `_MAX_PIECES` pieces, continuing after short writes; return their size in bytes."""
    size = sum(map(len, pieces))
    done = os.writev(descriptor, pieces) if size else 0
    if done < size:
        rest = memoryview(b"".join(pieces))
        while done < size:
            done += os.write(descriptor, rest[done:])
    return size


class Sync:
    """Leaves the moment at which bytes reach the device to the operating system."""

    def file(self, descriptor: int) -> None:
        """Called with the descriptor of a complete file, before it gets its name. Raises OSError."""

    def folder(self, path: Path) -> None:
        """Called with the folder of a file that has just got its name. Raises OSError."""


class DurableSync(Sync):
    """Waits for the device, so written files survive a power failure."""

    def file(self, descriptor: int) -> None:
        """Flush the file to the device."""
        os.fsync(descriptor)

    def folder(self, path: Path) -> None:
        """Flush the folder, which holds the name."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
