"""Every file and folder name of a dump. No other module spells one out (a compression adds its own suffix).

    DIR/7.jsonl                  the rollouts of step 7, by the template `path.filename` (7.jsonl.gz, 7.jsonl.zst
                                 if compressed)
    DIR/7.jsonl.tmp              the same file while it is written
    DIR/run.json                 what wrote the dump (see run_record.py)
    DIR/run.lock                 locked while a run writes to DIR (see directory_lock.py)
    DIR/run.lease                the lock where the file system has no flock, and in remote stores (see lease.py)
    DIR/run.pending              the steps that a run was given, while it lives (see handover_log.py)
    DIR/sweep.json               the job of a Hydra sweep that writes to DIR (see sweep_claim.py)
    DIR/superseded/1/7.jsonl     what attempt 1 wrote for step 7, after a later attempt wrote the step again;
                                 attempt 0 stands for files of other programs
    DIR/validation/              the dump of the validations, if both splits are configured to go to DIR
    DIR/shards/0003-of-0016/     the dump of one of several writers, with its own run.json and run.lock
    DIR/reader.index             what the reader stores to open a large dump quickly (see reader/index_cache.py)
    DIR/repair.json              in a copy that `repair` made: what it changed

Only step files end in `.jsonl`, since verl's `scripts/rollout_viewer.py` takes `int(stem)` of every `*.jsonl`. A spool
has `run.json`, `run.lock` and a folder of step files for each attempt, named by its number (see remote/spool.py).
"""

from __future__ import annotations

import os
import re
import string
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path

from verl_rollout_dump.config.schema import WriterConfig
from verl_rollout_dump.storage.compression import CODECS

STEP_SUFFIX = ".jsonl"
_COMPRESSED_SUFFIXES = tuple(codec.suffix for codec in CODECS.values() if codec.suffix)
_STEP_SUFFIXES = (STEP_SUFFIX, *(STEP_SUFFIX + suffix for suffix in _COMPRESSED_SUFFIXES))
PARQUET_SUFFIX = ".parquet"  # of files that other programs dump, such as TRL's completions
READABLE_SUFFIXES = (*_STEP_SUFFIXES, PARQUET_SUFFIX)
TEMPORARY_SUFFIX = ".tmp"
REFUSED_SUFFIX = ".refused"  # of a file in the spool that `existing: error` keeps out of the store

RUN_RECORD = "run.json"
RUN_LOCK = "run.lock"
RUN_LEASE = "run.lease"
HANDOVER_LOG = "run.pending"
SWEEP_CLAIM = "sweep.json"
INDEX_CACHE = "reader.index"
REPAIR_REPORT = "repair.json"

SUPERSEDED_FOLDER = "superseded"
VALIDATION_FOLDER = "validation"
SHARDS_FOLDER = "shards"
_SHARD_NAME = re.compile(r"(?P<shard>\d{4,})-of-(?P<shards>\d{4,})")

_ANY_COMPRESSION = f"({'|'.join(map(re.escape, _COMPRESSED_SUFFIXES))})?"
# The last number in the name, for names whose template is not known.
_ANY_TEMPLATE = re.compile(rf".*?(?P<step>\d+)[^\d]*?{re.escape(STEP_SUFFIX)}{_ANY_COMPRESSION}")


def step_name(template: str, step: int) -> str:
    """Return the name of a step's file, without a compression's suffix. Raises ValueError for one with a slash."""
    name = template.format(step=step)
    if "/" in name or "\0" in name:
        raise ValueError(f"rollout_dump.path.filename={template!r} gives {name!r}, which is no plain file name")
    return name


def other_names(name: str) -> list[str]:
    """Return the names that the file of a step has under the other compressions."""
    plain = _without_compression(name)
    return [plain + codec.suffix for codec in CODECS.values() if plain + codec.suffix != name]


def _without_compression(name: str) -> str:
    """Return a file name without the suffix of its compression."""
    for suffix in _COMPRESSED_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def plain_name(name: str) -> str:
    """Return the name of the same step's file as plain JSONL: `7.jsonl` for `7.jsonl.gz` and `7.parquet`."""
    stem = _without_compression(name).removesuffix(PARQUET_SUFFIX).removesuffix(STEP_SUFFIX)
    return stem + STEP_SUFFIX


@cache
def _step_pattern(template: str | None) -> re.Pattern[str]:
    """Return a pattern that the names of a template match; None stands for an unknown template."""
    if template is None:
        return _ANY_TEMPLATE
    parts = []
    for literal, field, _, _ in string.Formatter().parse(template):
        parts.append(re.escape(literal))
        if field is not None:
            is_repeated = any("?P<step>" in part for part in parts)
            parts.append(r"\s*\d+" if is_repeated else r"\s*(?P<step>\d+)")
    return re.compile("".join(parts) + _ANY_COMPRESSION)


def step_of(name: str, template: str | None) -> int | None:
    """Return the step whose file has a name, or None if it is not a name that the template gives."""
    match = _step_pattern(template).fullmatch(name)
    step = int(match["step"]) if match else None
    if step is not None and template is not None and _without_compression(name) != step_name(template, step):
        return None
    return step


def files_by_step(folder: Path, template: str | None) -> dict[int, list[Path]]:
    """Return the step files of a folder by step, in ascending order; a step has two if its compression changed."""
    files: dict[int, list[Path]] = {}
    for entry in sorted(folder.iterdir()):
        step = step_of(entry.name, template)
        if step is not None:
            files.setdefault(step, []).append(entry)
    return dict(sorted(files.items()))


def temporary_path(path: Path) -> Path:
    """Return where a file is written before it gets its name."""
    return path.with_name(path.name + TEMPORARY_SUFFIX)


def own_temporary_path(path: Path) -> Path:
    """Return a temporary path of this process, for files that several processes may write at the same time."""
    return path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")


def unfinished_files(folder: Path) -> list[Path]:
    """Return the step files in a folder that are being written, or that a killed run began to write."""
    return sorted(folder.glob(f"*{STEP_SUFFIX}*{TEMPORARY_SUFFIX}"))


def superseded_name(attempt: int, name: str, number: int = 1) -> str:
    """Return where the file of an attempt is kept, relative to the dump; `number` counts files of the same name."""
    return f"{SUPERSEDED_FOLDER}/{attempt}/{name}" + (f".{number}" if number > 1 else "")


def superseded_files_named(folder: Path, attempt: int, name: str) -> Iterator[Path]:
    """Yield the files of an attempt that are kept under a name, and under that name with a number."""
    for path in (folder / SUPERSEDED_FOLDER / str(attempt)).glob(f"{name}*"):
        if TEMPORARY_SUFFIX not in path.name:
            yield path


def unreadable_record(record: Path) -> Path:
    """Return where a `run.json` that cannot be read is kept."""
    return record.with_name(f"{RUN_RECORD}.unreadable-{datetime.now().strftime('%Y%m%dT%H%M%S%f')}")


def shard_folder(directory: Path, config: WriterConfig) -> Path:
    """Return where a writer writes: the directory itself if it is the only writer."""
    if config.shards == 1:
        return directory
    return directory / SHARDS_FOLDER / _shard_name(config.shard, config.shards)


def shard_url(url: str, config: WriterConfig) -> str:
    """Return the URL where a writer writes: the URL of the dump if it is the only writer."""
    if config.shards == 1:
        return url
    return f"{url.rstrip('/')}/{SHARDS_FOLDER}/{_shard_name(config.shard, config.shards)}"


def _shard_name(shard: int, shards: int) -> str:
    """Return the name of a writer's folder."""
    return f"{shard:04d}-of-{shards:04d}"


def shard_folders(directory: Path) -> list[Path]:
    """Return the folders of all writers of a dump, in their order; empty if it has one writer."""
    folder = directory / SHARDS_FOLDER
    if not folder.is_dir():
        return []
    return sorted(entry for entry in folder.iterdir() if _SHARD_NAME.fullmatch(entry.name) and entry.is_dir())


def writers_of(folder_name: str) -> int:
    """Return the number of writers that a shard's folder name states; 1 for other names."""
    match = _SHARD_NAME.fullmatch(folder_name)
    return int(match["shards"]) if match else 1


def cache_folder() -> Path:
    """Return this package's folder in the user's cache directory: spools and indexes are kept there."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "verl_rollout_dump"
