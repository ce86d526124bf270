"""Which fields a record has, in which order, and what becomes of columns that do not fit.

The order is the contract's: `input, output, gts, score, step`, then `uid`, `request_id` and `outcome` where the trainer
has them, then what the trainer knows besides (`fields.trainer`, nothing by default), then the extras in order of first
appearance, then the token fields. The whitelist may give another order.

A field's kind follows from where it comes from, never from its name: an extra called `prompt_ids` is an extra.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from verl_rollout_dump.batch.columns import is_column, named_columns
from verl_rollout_dump.batch.rollout_batch import BatchError, RolloutBatch, step_number
from verl_rollout_dump.config.schema import FieldsConfig, Mismatch
from verl_rollout_dump.dump.token_rows import are_token_ids
from verl_rollout_dump.dump.whitelist import OUTCOME, chosen_names
from verl_rollout_dump.errors import OnceLogger
from verl_rollout_dump.serialization import repair_text

CORE = ("input", "output", "gts", "score", "step")
TOKENS = ("prompt_ids", "response_ids", "rollout_log_probs")


@dataclass(slots=True)
class Field:
    """One field of the records: its values, and what they are."""

    name: str
    values: Any


class BatchValue(Field):
    """One value for the whole batch, repeated on each record."""

    __slots__ = ()


class Column(Field):
    """One value per rollout: a list, tuple, array or table column of n."""

    __slots__ = ()


class ScoreColumn(Column):
    """One number per rollout, a number under every strategy."""

    __slots__ = ()


@dataclass(slots=True)
class TokenColumn(Column):
    """One number per token: n rows, written as arrays of numbers. `mask` (n, length) tells which tokens are real."""

    mask: Any


class TextColumn(TokenColumn):
    """n rows of token ids that are written as text."""

    __slots__ = ()


class FieldNotes(OnceLogger):
    """Counts what did not go through as given, by (kind, field), and warns of each once in the life of a dump."""

    def __init__(self) -> None:
        super().__init__(logging.getLogger(__name__))

    def note(self, kind: str, name: str, message: str) -> None:
        """Count one occurrence; the first one is logged as a warning."""
        self.warning(f"{name}: {kind}", message)


def select_fields(batch: RolloutBatch, config: FieldsConfig, notes: FieldNotes) -> list[Field]:
    """Return the fields of the batch that the whitelist lets through, in the order of the records.

    Raises `BatchError` if a column has another length or a whitelisted name is missing and the config says that this
    is an error.
    """
    available = _available_fields(batch, config, notes)
    chosen, missing = chosen_names(tuple(config.include), tuple(config.exclude), tuple(available))
    for name in missing:
        _complain(
            config.on_missing,
            notes,
            ("whitelisted but missing", name),
            f"step {batch.step}: the whitelisted field {name!r} is not in the batch, so it is null; "
            f"the batch has: {', '.join(available)}",
        )
    if not chosen:
        notes.note(
            "no field chosen",
            "*",
            f"rollout_dump.fields.include={list(config.include)} matches no field of step {batch.step}, so its records "
            f"are empty; the batch has: {', '.join(available)}",
        )
    return [available.get(name) or BatchValue(name, None) for name in chosen]


def _available_fields(batch: RolloutBatch, config: FieldsConfig, notes: FieldNotes) -> dict[str, Field]:
    """Return every field that the batch has, in the contract's order."""
    fields = _trainers_fields(batch)
    tokens = _token_fields(batch) if config.tokens else {}
    extras = _named_extras(batch, notes)
    taken = {*fields, *tokens}
    for name, values in extras.items():
        free = name if name not in taken else _free_name(name, taken, extras, notes)
        taken.add(free)
        fields[free] = _as_field(free, values)
    fields |= tokens
    _check_lengths(fields, batch, config.on_mismatch, notes)
    return fields


def _trainers_fields(batch: RolloutBatch) -> dict[str, Field]:
    """Return the fields that come from the trainer itself, token fields left out."""
    fields: dict[str, Field] = {
        "input": _text_field("input", batch.prompts, batch.prompt_mask),
        "output": _text_field("output", batch.responses, batch.response_mask),
        "gts": _as_field("gts", batch.ground_truths),
        "score": ScoreColumn("score", batch.scores) if is_column(batch.scores) else BatchValue("score", batch.scores),
        "step": BatchValue("step", step_number(batch.step)),
    }
    optional = {"uid": batch.uids, "request_id": batch.request_ids, OUTCOME: batch.outcomes}
    fields |= {name: _as_field(name, values) for name, values in optional.items() if values is not None}
    return fields | {name: _as_field(name, values) for name, values in batch.trainer_fields.items()}


def _text_field(name: str, values: Any, mask: Any) -> Field:
    """Return prompts or responses: token ids that become text, or text."""
    return TextColumn(name, values, mask) if are_token_ids(values) else Column(name, values)


def _token_fields(batch: RolloutBatch) -> dict[str, Field]:
    """Return the token ids and log-probabilities that the batch has; text has no ids."""
    ids = {"prompt_ids": (batch.prompts, batch.prompt_mask), "response_ids": (batch.responses, batch.response_mask)}
    fields: dict[str, Field] = {
        name: TokenColumn(name, values, mask) for name, (values, mask) in ids.items() if are_token_ids(values)
    }
    if batch.log_probs is not None:
        fields["rollout_log_probs"] = TokenColumn("rollout_log_probs", batch.log_probs, batch.response_mask)
    return fields


def _named_extras(batch: RolloutBatch, notes: FieldNotes) -> dict[str, Any]:
    """Return the extras as columns under names that are text; two that become the same name are both kept."""
    try:
        columns = named_columns(batch.extras)
    except TypeError as error:
        notes.note("unreadable", "extras", f"step {batch.step}: {error}; they are left out of this step")
        return {}
    named: dict[str, Any] = {}
    for key, values in columns.items():
        name = repair_text(key) if isinstance(key, str) else str(key)
        if name in named:
            free = next(f"{name}_{i}" for i in range(2, len(columns) + 2) if f"{name}_{i}" not in named)
            notes.note("same name twice", name, f"two extras are named {name!r}; the later is written as {free!r}")
            name = free
        named[name] = values
    return named


def _free_name(name: str, taken: Iterable[str], extras: Mapping[str, Any], notes: FieldNotes) -> str:
    """Return another name for an extra that is named like a field of the trainer, which keeps its name."""
    free = f"extra_{name}"
    while free in taken or free in extras:
        free += "_"
    notes.note(
        "reserved name",
        name,
        f"an extra is named {name!r}, which is a field of the trainer; it is written as {free!r}",
    )
    return free


def _as_field(name: str, values: Any) -> Field:
    """Return a column, or one value for the whole batch (`batch.columns.is_column`)."""
    return (Column if is_column(values) else BatchValue)(name, values)


def _check_lengths(fields: dict[str, Field], batch: RolloutBatch, policy: Mismatch, notes: FieldNotes) -> None:
    """Remove the columns that are not n long, or empty those that every record has; say so."""
    n = len(batch)
    for name, field in list(fields.items()):
        if not isinstance(field, Column) or len(field.values) == n:
            continue
        fate = "it is null on every record" if name in CORE else "it is left out of this step"
        _complain(
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


def _complain(policy: Mismatch, notes: FieldNotes, key: tuple[str, str], message: str) -> None:
    """Raise `BatchError` or note the message, as the config says."""
    if policy is Mismatch.error:
        raise BatchError(message)
    notes.note(*key, message)
