"""`RolloutFeed`: collects the rollouts of a trainer until a step, or an evaluation, has ended."""

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
    """What a trainer carries: the hooks, and the rollouts that have not been passed to them yet."""

    trainer: Any
    config: DumpConfig
    hooks: RolloutHooks | None  # None on all processes but the main one
    ground_truths: tuple[str, ...]
    ended: bool = False
    scored: Scored | None = None
    # The `metric_key_prefix` of each running `evaluate`: with several datasets, it calls itself for each.
    evaluating: list[str] = field(default_factory=list)
    waiting: dict[Split, list[Rollout]] = field(default_factory=lambda: {"train": [], "validation": []})
    steps: dict[Split, int] = field(default_factory=dict)
    log: OnceLogger = field(default_factory=lambda: OnceLogger(logger))

    def add(self, output: Mapping[str, Any]) -> None:
        """Collect the rollouts of all processes that were just generated and scored."""
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
        """Fire the hook of a split with its collected rollouts."""
        rollouts, self.waiting[split] = self.waiting[split], []
        if self.hooks is not None and rollouts:
            fire = {"train": self.hooks.fire_rollout_end, "validation": self.hooks.fire_validation_end}[split]
            fire(batch_of(rollouts, self.steps[split], split))

    def end(self, hook: str, *arguments: object) -> None:
        """Pass the remaining rollouts on, then fire the last hook."""
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
        """Treat an error in reading rollouts like one of the dump: raise it, or log it once and continue."""
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
