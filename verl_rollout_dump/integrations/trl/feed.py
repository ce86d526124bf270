"""What stands between TRL and the hooks: rollouts wait here until a step, or an evaluation, is over."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from verl_rollout_dump.batch.rollout_batch import Split
from verl_rollout_dump.config import DumpConfig
from verl_rollout_dump.errors import OnceLogger
from verl_rollout_dump.hooks import RolloutHooks
from verl_rollout_dump.integrations.trl.batches import (
    Reading,
    Rollout,
    Scored,
    batch_of,
    of_all_processes,
    pack,
    read_rollouts,
)

logger = logging.getLogger(__name__)


@dataclass
class RolloutFeed:
    """What we keep on a trainer: the hooks, and the rollouts that they have not been told of yet."""

    trainer: Any
    config: DumpConfig
    hooks: RolloutHooks | None  # None on all processes but the main one
    ground_truths: tuple[str, ...]
    ended: bool = False
    scored: Scored | None = None
    # The `metric_key_prefix` of each `evaluate` that is going on: with several sets, it calls itself for each.
    evaluating: list[str] = field(default_factory=list)
    waiting: dict[Split, list[Rollout]] = field(default_factory=lambda: {"train": [], "validation": []})
    steps: dict[Split, int] = field(default_factory=dict)
    log: OnceLogger = field(default_factory=lambda: OnceLogger(logger))

    def add(self, output: Mapping[str, Any]) -> None:
        """Take the rollouts that were just generated and scored, of all processes."""
        training = bool(self.trainer.model.training)
        if not training and not self.evaluating:
            return  # `predict`
        split: Split = "train" if training else "validation"
        self.steps[split] = self.trainer.state.global_step + training
        packed: list[Any] = []
        with self.forgiving():
            packed = pack(self.trainer, self.read(output))
        self.waiting[split] += of_all_processes(self.trainer, packed)

    def read(self, output: Mapping[str, Any]) -> list[Rollout]:
        """Return the rollouts of this process."""
        scored, self.scored = self.scored, None
        if scored is None:
            raise RuntimeError("TRL generated rollouts without scoring them")
        outer, inner = self.evaluating[0:1], self.evaluating[1:][-1:]
        eval_dataset = inner[0].removeprefix(f"{outer[0]}_") if inner else None
        reading = Reading(self.ground_truths, self.config.fields.tokens, eval_dataset, self.say_once)
        return read_rollouts(self.trainer, scored, output, reading)

    def tell(self, split: Split) -> None:
        """Fire the hook of a split with the rollouts that wait for it."""
        rollouts, self.waiting[split] = self.waiting[split], []
        if self.hooks is not None and rollouts:
            fire = {"train": self.hooks.fire_rollout_end, "validation": self.hooks.fire_validation_end}[split]
            fire(batch_of(rollouts, self.steps[split], split))

    def end(self, hook: str, *arguments: object) -> None:
        """Tell of what still waits, then fire the hook that is the last."""
        self.ended = True
        try:
            self.tell("train")
        finally:
            if self.hooks is not None:
                getattr(self.hooks, hook)(*arguments)

    def say_once(self, message: str) -> None:
        """Warn of something that would be repeated with every batch."""
        self.log.warning(message, message)

    @contextmanager
    def forgiving(self) -> Iterator[None]:
        """Handle a fault of ours as the dump's own: raise it, or log it once and let the training go on."""
        try:
            yield
        except Exception as error:
            if self.config.on_error.name == "raise":
                raise
            self.log.error(
                type(error).__name__,
                f"TRL's rollouts cannot be read, so they are not dumped; training goes on: {error}",
                error,
            )
