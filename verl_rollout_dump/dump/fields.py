"""Which fields a record has, in which order, and what becomes of columns that do not fit.

The order is the contract's: `input, output, gts, score, step`, then `uid` and `request_id` where the trainer has
them, then what the trainer knows besides (`fields.trainer`, nothing by default), then the extras in order of first
appearance, then the token fields. The whitelist may give another.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from verl_rollout_dump.batch.deferred import LateRows
from verl_rollout_dump.batch.rollout_batch import BatchError, RolloutBatch, columns_of
from verl_rollout_dump.config.schema import FieldsConfig, Mismatch
from verl_rollout_dump.dump.token_rows import are_token_ids
from verl_rollout_dump.serialization import repair_text

logger = logging.getLogger(__name__)

CORE = ("input", "output", "gts", "score", "step")
IDENTITY = ("uid", "request_id")  # where the trainer has them: never warned about, never null for all
PLAINLY_COLUMNS = frozenset({list, tuple, LateRows})
TOKENS = ("prompt_ids", "response_ids", "rollout_log_probs")


@dataclass(slots=True)
class Field:
    """One field of the records: its values, and what they are."""

    name: str
    values: Any


class Column(Field):
    """One value per rollout: a list, tuple or array of n."""

    __slots__ = ()


class BatchValue(Field):
    """One value for the whole batch, repeated on each record."""

    __slots__ = ()


class FieldNotes:
    """Counts what did not go through as given, and warns of each (field, kind) once in the life of a dump."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def note(self, kind: str, name: str, message: str) -> None:
        """Count one occurrence; the first one is logged as a warning."""
        key = f"{name}: {kind}"
        self.counts[key] = self.counts.get(key, 0) + 1
        if self.counts[key] == 1:
            logger.warning("%s (said once; counted in the report)", message)


def select_fields(batch: RolloutBatch, config: FieldsConfig, notes: FieldNotes) -> list[Field]:
    """Return the fields of the batch that the whitelist lets through, in the order of the records.

    Raises `BatchError` where the config says that a column of another length or a missing name is an error.
    """
    available = available_fields(batch, config, notes)
    chosen, missing = chosen_names(tuple(config.include), tuple(config.exclude), tuple(available))
    for name in missing:
        complain(
            config.on_missing,
            notes,
            ("whitelisted but missing", name),
            f"step {batch.step}: the whitelisted field {name!r} is not in the batch, so it is null; "
            f"the batch has: {', '.join(available)}",
        )
    return [available.get(name) or BatchValue(name, None) for name in chosen]


@functools.lru_cache(maxsize=64)  # steps have the same fields, mostly
def chosen_names(
    include: tuple[str, ...], exclude: tuple[str, ...], available: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the fields that are written, in order, and those of the whitelist that are missing."""
    names = [name for name in whitelisted(include, available) if name in available or name not in IDENTITY]
    missing = tuple(name for name in names if name not in available)
    return tuple(name for name in names if not matches_any(name, exclude)), missing


def available_fields(batch: RolloutBatch, config: FieldsConfig, notes: FieldNotes) -> dict[str, Field]:
    """Return every field that the batch has, in the contract's order."""
    extras = named_extras(batch.extras, notes)
    fields: dict[str, Field] = {
        "input": Column("input", batch.prompts),
        "output": Column("output", batch.responses),
        "gts": as_field("gts", batch.ground_truths),
        "score": as_field("score", batch.scores),
        "step": BatchValue("step", int(batch.step)),
    }
    if batch.uids is not None:
        fields["uid"] = as_field("uid", batch.uids)
    for name in IDENTITY:
        if name in extras and name not in fields:
            fields[name] = as_field(name, extras.pop(name))
    fields |= {name: as_field(name, values) for name, values in batch.trainer_fields.items()}
    tokens = token_fields(batch) if config.tokens else {}
    taken = {*fields, *tokens}
    for name, values in extras.items():
        free = name if name not in taken else free_name(name, taken, extras, notes)
        taken.add(free)
        fields[free] = as_field(free, values)
    fields |= tokens
    check_lengths(fields, batch, config.on_mismatch, notes)
    return fields


def named_extras(extras: Any, notes: FieldNotes) -> dict[str, Any]:
    """Return the extras as columns under names that are text; two that become the same name are both kept."""
    columns = extras if isinstance(extras, Mapping) else columns_of(extras)
    named: dict[str, Any] = {}
    for key, values in columns.items():
        name = repair_text(key) if isinstance(key, str) else str(key)
        if name in named:
            taken, name = (
                name,
                next(f"{name}_{i}" for i in range(2, len(columns) + 2) if f"{name}_{i}" not in named),
            )
            notes.note("same name twice", taken, f"two extras are named {taken!r}; the later is written as {name!r}")
        named[name] = values
    return named


def free_name(name: str, taken: Iterable[str], extras: Mapping[str, Any], notes: FieldNotes) -> str:
    """Return another name for an extra whose own a field of the trainer has: the trainer's field wins."""
    free = f"extra_{name}"
    while free in taken or free in extras:
        free += "_"
    notes.note(
        "reserved name",
        name,
        f"an extra is named {name!r}, which is a field of the trainer; it is written as {free!r}",
    )
    return free


def token_fields(batch: RolloutBatch) -> dict[str, Field]:
    """Return the token ids and log-probabilities that the batch has; text has no ids."""
    ids = {"prompt_ids": batch.prompts, "response_ids": batch.responses}
    found = {name: Column(name, values) for name, values in ids.items() if are_token_ids(values)}
    if batch.log_probs is not None:
        found["rollout_log_probs"] = Column("rollout_log_probs", batch.log_probs)
    return dict(found)


def as_field(name: str, values: Any) -> Field:
    """Tell columns from values of the whole batch: lists, tuples and arrays with an axis are columns."""
    return (Column if is_column(values) else BatchValue)(name, values)


def is_column(values: Any) -> bool:
    """Whether this is a column of one value per rollout.

    A str, bytes, dict, set, named tuple, 0-d array or any other single object is one value for all.
    """
    if type(values) in PLAINLY_COLUMNS:
        return True
    if isinstance(values, (str, bytes, bytearray, memoryview, Mapping)) or hasattr(values, "_fields"):
        return False
    if hasattr(values, "ndim") or hasattr(values, "shape"):
        return len(getattr(values, "shape", ())) > 0 or getattr(values, "ndim", 0) > 0
    return isinstance(values, Sequence)


def check_lengths(fields: dict[str, Field], batch: RolloutBatch, policy: Mismatch, notes: FieldNotes) -> None:
    """Take out (or, for a field that every record has, empty) the columns that are not n long; say so."""
    n = len(batch)
    for name, field in list(fields.items()):
        if not isinstance(field, Column) or len(field.values) == n:
            continue
        fate = "it is null on every record" if name in CORE else "it is left out of this step"
        complain(
            policy,
            notes,
            ("wrong length", name),
            f"step {batch.step}: the column {name!r} has {len(field.values)} values for {n} rollouts; {fate}. "
            "Return one value per rollout (None where there is none)",
        )
        if name in CORE:
            fields[name] = BatchValue(name, None)
        else:
            del fields[name]


def complain(policy: Mismatch, notes: FieldNotes, key: tuple[str, str], message: str) -> None:
    """Raise or note, as the config says."""
    if policy is Mismatch.error:
        raise BatchError(message)
    notes.note(*key, message)


def whitelisted(patterns: Sequence[str], available: Iterable[str]) -> list[str]:
    """Return the names that the whitelist lets through, each once, in the order of the patterns.

    A pattern that is the name of a field stands for it; else one with `*`, `?` or `[` is a glob; else it is a
    name that the batch does not have.
    """
    available = list(available)
    names: dict[str, None] = {}
    for pattern in patterns:
        stands_for_many = pattern not in available and is_glob(pattern)
        found = [name for name in available if fnmatchcase(name, pattern)] if stands_for_many else [pattern]
        names |= dict.fromkeys(found)
    return list(names)


def is_whitelisted(name: str, config: FieldsConfig) -> bool:
    """Whether a field of this name is written if it is there."""
    return matches_any(name, config.include) and not matches_any(name, config.exclude)


def is_glob(pattern: str) -> bool:
    """Whether a name of the whitelist may stand for several fields."""
    return any(sign in pattern for sign in "*?[")


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name is one of the patterns, or matches one as a glob."""
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)
