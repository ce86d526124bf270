"""`RolloutBatch`: all rollouts of one step, as a trainer hands them to the hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from verl_rollout_dump.batch.deferred import LateRows, present

Split = Literal["train", "validation"]


class BatchError(ValueError):
    """A batch cannot be read: prompts and responses do not fit together, or ids come without a tokenizer."""


@dataclass
class RolloutBatch:
    """The n rollouts of one step.

    A callback must not change a batch, and must not keep a reference to its lists and dicts after it returned:
    the trainer goes on with them. Tensors and arrays of token ids, masks and log-probabilities may be kept; a
    trainer that changes them in place hands over copies.
    """

    # The number of the training step (`global_steps` in verl).
    step: int
    # n strings, or token ids: an integer tensor or array (n, prompt_length), or n lists of ids.
    prompts: Any
    # n strings, or token ids as above (n, response_length).
    responses: Any
    # n numbers.
    scores: Any
    # n values of any type; None: the trainer has none.
    ground_truths: Any = None
    # name -> column of n values; a str, dict or scalar is repeated on each record. A sequence of n mappings
    # (one per rollout, with keys that may differ) is taken too.
    extras: Mapping[Any, Any] | Sequence[Mapping[Any, Any] | None] = field(default_factory=dict)
    # Which of the two kinds of rollout these are.
    split: Split = "train"
    # (n, prompt_length): nonzero where a token is real, zero where it is padding.
    prompt_mask: Any = None
    # (n, response_length): the same; a row that is zero throughout is a padding row and is not dumped.
    response_mask: Any = None
    # (n, response_length) floats: log-probabilities that the rollout engine gave its tokens.
    log_probs: Any = None
    # n strings: what ties a record to the trainer's sample.
    uids: Any = None
    # name -> column, as extras: what the trainer itself knows besides, such as the number of turns. Written between
    # uid, request_id and the extras.
    trainer_fields: Mapping[str, Any] = field(default_factory=dict)

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
        """Return the batch with nothing in it that is still to be worked out (`LateRows`)."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        late = {name: present(rows) for name, rows in given.items() if isinstance(rows, LateRows)}
        return replace(self, **late) if late else self


def columns_of(records: Sequence[Mapping[Any, Any] | None]) -> dict[Any, list[Any]]:
    """Turn one mapping per rollout into columns: the union of their keys, in order of first appearance.

    A rollout that lacks a key has None there (verl-project/verl#7151: keys were taken from sample 0 alone).
    """
    names = dict.fromkeys(name for record in records for name in record or ())
    return {name: [(record or {}).get(name) for record in records] for name in names}
