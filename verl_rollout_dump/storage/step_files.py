"""The names of step files: which step a name stands for, by the template `path.filename`."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path

from verl_rollout_dump.config.schema import WriterConfig


def now() -> str:
    """Return the present time in ISO 8601, UTC, to the millisecond: attempts are put in order by it."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def format_steps(steps: Iterable[int]) -> str:
    """Write a set of steps as ranges in rising order."""
    ranges: list[list[int]] = []
    for step in sorted(set(steps)):
        if ranges and step == ranges[-1][1] + 1:
            ranges[-1][1] = step
        else:
            ranges.append([step, step])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def parse_steps(text: str) -> set[int]:
    """Read what `format_steps` wrote; raises ValueError for other text. Steps are not negative."""
    steps: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        steps.update(range(int(first), int(last or first) + 1))
    return steps


SUFFIXES = ("", ".gz", ".zst")  # what compression adds to a name
ANY_TEMPLATE = re.compile(r".*?(?P<step>\d+)[^\d]*?\.jsonl(\.gz|\.zst)?")  # the last number in the name


def step_name(template: str, step: int) -> str:
    """Return the name of a step's file, before what compression adds. Raises ValueError for one with a slash."""
    name = template.format(step=step)
    if "/" in name or "\0" in name:
        raise ValueError(f"rollout_dump.path.filename={template!r} gives {name!r}, which is no plain file name")
    return name


def step_pattern(template: str | None) -> re.Pattern[str]:
    """Return the pattern of the names that a template gives; None: the template is not known."""
    if template is None:
        return ANY_TEMPLATE
    parts = []
    for literal, field, _, _ in string.Formatter().parse(template):
        parts.append(re.escape(literal))
        if field is not None:
            again = any("?P<step>" in part for part in parts)
            parts.append(r"\s*(?P=step)" if again else r"\s*(?P<step>\d+)")
    return re.compile("".join(parts) + r"(\.gz|\.zst)?")


def files_by_step(folder: Path, template: str | None) -> dict[int, list[Path]]:
    """Return the step files of a folder by step, in rising order (a change of compression leaves two of a step)."""
    pattern = step_pattern(template)
    found: dict[int, list[Path]] = {}
    for entry in sorted(folder.iterdir()):
        match = pattern.fullmatch(entry.name)
        if match:
            found.setdefault(int(match["step"]), []).append(entry)
    return dict(sorted(found.items()))


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
