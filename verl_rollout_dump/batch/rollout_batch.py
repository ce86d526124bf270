"""`RolloutBatch`: all rollouts of one step, as a trainer hands them to the hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Number
from typing import Any, Literal

from verl_rollout_dump.batch.columns import is_column, named_columns, take_rows
from verl_rollout_dump.batch.deferred import DeferredRows, resolved

Split = Literal["train", "validation"]


class BatchError(ValueError):
    """A batch cannot be read, for instance because it has token ids and the dump has no tokenizer."""


@dataclass
class RolloutBatch:
    """The n rollouts of one step.

    A callback must not change a batch, and must not keep references to its lists and dicts after it returned: the
    trainer continues to use them. Tensors and arrays of token ids, masks and log-probabilities may be kept; a trainer
    that changes them in place hands over copies.

    Raises `BatchError` if prompts and responses differ in number, or `split` is unknown.
    """

    # The number of the training step (`global_steps` in verl).
    step: int
    # n strings, or token ids: an integer tensor or array (n, prompt_length), or n lists of ids. None: not known.
    prompts: Any
    # n strings, or token ids as above (n, response_length).
    responses: Any
    # n numbers.
    scores: Any
    # n values of any type; None: the trainer has none.
    ground_truths: Any = None
    # What the reward function added: name -> column of n values; a str, dict or scalar is repeated on each record.
    # Also accepted: a sequence of n mappings (one per rollout, with keys that may differ), or a table with columns.
    extras: Any = field(default_factory=dict)
    # Whether these are rollouts of training or of a validation.
    split: Split = "train"
    # (n, prompt_length): nonzero where a token is real, zero where it is padding.
    prompt_mask: Any = None
    # (n, response_length): the same for responses. Zeros between real tokens do not cut a response.
    response_mask: Any = None
    # (n, response_length) floats: the log-probabilities that the rollout engine gave to its tokens.
    log_probs: Any = None
    # n strings: the trainer's own identity of each rollout, and of the request that generated it.
    uids: Any = None
    request_ids: Any = None
    # How the uids are made of the prompt's, if they identify single rollouts: `storage.run_record.ROLLOUT_UIDS`. None:
    # a uid is what the rollouts of one prompt share. Recorded in run.json, so that readers know the groups.
    uid_form: str | None = None
    # n names of `batch.outcomes.OUTCOMES`: what the trainer did with each rollout. None: every rollout of the run is
    # trained on. A trainer decides at start which of the two it is, so that the fields never change in a run.
    outcomes: Any = None
    # name -> column, as extras: what the trainer itself knows besides, such as the number of turns. Written between
    # the identities and the extras.
    trainer_fields: Mapping[str, Any] = field(default_factory=dict)
    # How many copies the trainer had added to fill the batch. They are not among the n rollouts.
    padding_rows: int = 0

    def __len__(self) -> int:
        return len(self.responses)

    def __post_init__(self) -> None:
        if len(self.prompts) != len(self.responses):
            raise BatchError(
                f"step {self.step}: {len(self.prompts)} prompts and {len(self.responses)} responses; "
                "a batch has one of each per rollout"
            )
        if self.split not in ("train", "validation"):
            raise BatchError(f"step {self.step}: split is {self.split!r}; expected 'train' or 'validation'")

    def complete(self) -> RolloutBatch:
        """Return the batch with every deferred value computed (`batch.deferred`)."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        deferred = {name: resolved(rows) for name, rows in given.items() if isinstance(rows, DeferredRows)}
        if isinstance(self.extras, Mapping) and any(isinstance(rows, DeferredRows) for rows in self.extras.values()):
            deferred["extras"] = {name: resolved(rows) for name, rows in self.extras.items()}
        return replace(self, **deferred) if deferred else self

    def take(self, rows: Sequence[int]) -> RolloutBatch:
        """Return a batch of the chosen rollouts; `rows` are their numbers in rising order.

        The padding rows are not counted again. The rows are copied: a view would travel between processes with
        everything that it shows. A column of another length than n becomes an empty one, so that it does not fit the
        new batch either.
        """
        n = len(self)
        whole = {name: getattr(self, name) for name in _WHOLE}
        others = [field.name for field in fields(self) if field.name not in (*_WHOLE, "padding_rows")]
        columns = {name: getattr(self, name) for name in others}
        named = {name: columns.pop(name) for name in _NAMED}
        taken = {name: _own_rows(values, rows) for name, values in columns.items()}
        for name, given in named.items():
            taken[name] = {key: _own_part(values, n, rows) for key, values in named_columns(given).items()}
        return RolloutBatch(**whole, **taken)


_WHOLE = ("step", "split", "uid_form")
_NAMED = ("extras", "trainer_fields")


def step_number(step: Any) -> int:
    """Return a step as a whole number from 0 on; accepts integers and integral floats of any library.

    Raises `BatchError` for any other value.
    """
    scalar = step.item() if hasattr(step, "item") and not getattr(step, "shape", ()) else step
    is_whole = isinstance(scalar, Number) and scalar == scalar // 1  # type: ignore[operator]
    number = int(scalar) if is_whole else -1
    if number < 0:
        raise BatchError(f"the step of a batch is {step!r}; expected a whole number from 0 on")
    return number


def _own_part(values: Any, n: int, rows: Sequence[int]) -> Any:
    if not is_column(values):
        return values
    return _own_rows(values, rows if len(values) == n else [])


def _own_rows(values: Any, rows: Sequence[int]) -> Any:
    if values is None:
        return None
    taken = take_rows(values, rows)
    return [row.tolist() for row in taken] if getattr(values, "is_nested", False) else taken
