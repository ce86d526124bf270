"""Many writers of one dump: each has a folder of its own, which is a whole dump in itself.

    DIR/shards/0003-of-0016/7.jsonl      what writer 3 of 16 (numbers begin at 0) wrote of step 7
    DIR/shards/0003-of-0016/run.json     its attempts; and its lock, its superseded files, its leftovers

No two writers share a file (verl's viewer takes int(stem) of every `*.jsonl` of a folder, so a name such as
`7.0003-of-0016.jsonl` would break it; opened on one shard's folder it shows that shard). `lineage_parts` joins them.
"""

from __future__ import annotations

import re
from pathlib import Path

from verl_rollout_dump.config.schema import WriterConfig

SHARDS = "shards"
FOLDER = re.compile(r"(?P<shard>\d{4,})-of-(?P<shards>\d{4,})")


def shard_folder(directory: Path, config: WriterConfig) -> Path:
    """Return where a writer writes: the directory itself where it is the only one."""
    if config.shards == 1:
        return directory
    return directory / SHARDS / shard_name(config.shard, config.shards)


def shard_name(shard: int, shards: int) -> str:
    """Return the name of a writer's folder."""
    return f"{shard:04d}-of-{shards:04d}"


def shard_folders(directory: Path) -> list[Path]:
    """Return the folders of all writers of a dump, in their order; none where it has one writer."""
    place = directory / SHARDS
    if not place.is_dir():
        return []
    return sorted(entry for entry in place.iterdir() if FOLDER.fullmatch(entry.name) and entry.is_dir())
