"""Check that a dump can be written to a directory: write a dump of one record, read it back, remove it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from verl_rollout_dump.batch.rollout_batch import RolloutBatch
from verl_rollout_dump.dump.callback import RolloutDumpCallback
from verl_rollout_dump.errors import DumpError
from verl_rollout_dump.reader import read_records, step_files
from verl_rollout_dump.storage.directory_lock import DirectoryLock
from verl_rollout_dump.storage.step_files import RUN_LOCK

_LEAST_FREE = 1 << 30  # bytes; a step of 4096 responses of 8192 tokens is about 42 MB
_TRIED = {"input": "2+2=", "output": "4", "gts": None, "score": 1.0, "step": 1}


def directory_check(path: Path) -> tuple[str, str, str]:
    """Return what was found, what is wrong ("" if nothing is) and what to do about it."""
    made = _missing_folders(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        if (path / RUN_LOCK).exists():
            DirectoryLock(path).release()
        fault = _try_record(path)
        free = shutil.disk_usage(path).free
    except DumpError as error:
        return "", str(error), ""  # the message has the remedy
    except OSError as error:
        return "", str(error), "choose another directory, or make this one writable"
    finally:
        _remove_empty(made)
    if free < _LEAST_FREE:
        fault = fault or f"only {free / 1e6:.0f} MB are free"
    return (
        f"one record written and read back, {free / 1e9:.1f} GB free",
        fault,
        "free some space, or choose another disk",
    )


def _try_record(path: Path) -> str:
    """Dump one record into a folder inside and read it back; return what is wrong, "" if nothing is."""
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=path) as folder:
        with RolloutDumpCallback.from_config({"path": {"dir": folder}, "on_error": "raise"}) as dump:
            dump.on_rollout_end(RolloutBatch(step=1, prompts=["2+2="], responses=["4"], scores=[1.0]))
        records = list(read_records(step_files(Path(folder))[1]))
    return "" if records == [_TRIED] else f"a record was read back as {records}"


def _missing_folders(path: Path) -> list[Path]:
    """Return the folders that do not exist yet, the innermost first."""
    return [folder for folder in (path, *path.parents) if not folder.exists()]


def _remove_empty(folders: list[Path]) -> None:
    """Remove those of the given folders that are empty."""
    for folder in folders:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
