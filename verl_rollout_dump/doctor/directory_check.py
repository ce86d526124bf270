"""Can a dump be written to a directory? Tried for real, with a dump of one record that is removed again."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from verl_rollout_dump.batch.rollout_batch import RolloutBatch
from verl_rollout_dump.dump.callback import RolloutDumpCallback
from verl_rollout_dump.errors import DumpError
from verl_rollout_dump.reader import read_records, step_files

LEAST_FREE = 1 << 30  # bytes; a step of 4096 responses of 8192 tokens is about 42 MB
TRIED = {"input": "2+2=", "output": "4", "gts": None, "score": 1.0, "step": 1}


def directory_check(path: Path) -> tuple[str, str]:
    """Return what was found, and what is at fault ("": nothing)."""
    made = missing_folders(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        fault = try_record(path)
        free = shutil.disk_usage(path).free
    except (OSError, DumpError) as error:
        return "", str(error)
    finally:
        remove_empty(made)
    if free < LEAST_FREE:
        fault = fault or f"only {free / 1e6:.0f} MB are free"
    return f"one record written and read back, {free / 1e9:.1f} GB free", fault


def try_record(path: Path) -> str:
    """Dump one record into a folder inside, and read it back; return what is at fault."""
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=path) as folder:
        with RolloutDumpCallback.from_config({"path": {"dir": folder}, "on_error": "raise"}) as dump:
            dump.on_rollout_end(RolloutBatch(step=1, prompts=["2+2="], responses=["4"], scores=[1.0]))
        records = list(read_records(step_files(Path(folder))[1]))
    return "" if records == [TRIED] else f"a record was read back as {records}"


def missing_folders(path: Path) -> list[Path]:
    """Return the folders that are not there yet, the innermost first."""
    return [folder for folder in (path, *path.parents) if not folder.exists()]


def remove_empty(folders: list[Path]) -> None:
    """Remove the folders that were made for the check, as far as they are empty again."""
    for folder in folders:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
