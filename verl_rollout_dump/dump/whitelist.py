"""The whitelist of fields (`fields.include`, `fields.exclude`): names or globs, in the order of the records."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from verl_rollout_dump.config.schema import FieldsConfig

IDENTITY = ("uid", "request_id")  # written where the trainer has them
OUTCOME = "outcome"  # written where a rollout of the run can have another outcome than `trained`
_OPTIONAL = (*IDENTITY, OUTCOME)


@functools.lru_cache(maxsize=64)  # most steps have the same fields
def chosen_names(
    include: tuple[str, ...], exclude: tuple[str, ...], available: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the fields that are written, in order, and those of the whitelist that are missing.

    An identity or an outcome that the trainer lacks is left out, unless the records would then have no field at all.
    """
    wanted = [name for name in whitelisted(include, available) if not matches_any(name, exclude)]
    names = [name for name in wanted if name in available or name not in _OPTIONAL] or wanted
    return tuple(names), tuple(name for name in names if name not in available)


def whitelisted(patterns: Sequence[str], available: Iterable[str]) -> list[str]:
    """Return the names that the whitelist lets through, each once, in the order of the patterns.

    A pattern that is the name of a field stands for that field; otherwise one with `*`, `?` or `[` is a glob;
    otherwise it is a name that the batch does not have.
    """
    available = list(available)
    names: dict[str, None] = {}
    for pattern in patterns:
        stands_for_many = pattern not in available and is_glob(pattern)
        matching = [name for name in available if fnmatchcase(name, pattern)] if stands_for_many else [pattern]
        names |= dict.fromkeys(matching)
    return list(names)


def is_whitelisted(name: str, config: FieldsConfig) -> bool:
    """Return whether a field of this name is written if the batch has it."""
    return matches_any(name, config.include) and not matches_any(name, config.exclude)


def is_glob(pattern: str) -> bool:
    """Return whether a name of the whitelist may stand for several fields."""
    return any(sign in pattern for sign in "*?[")


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name equals one of the patterns, or matches one as a glob."""
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)
