"""The names of step files: which step a name stands for, by the template `path.filename`."""

from __future__ import annotations

import re
import string
from pathlib import Path

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
