"""Rollouts that lie elsewhere: described here, read where they are written.

A trainer whose batch is too large for its own process hands over a `RolloutSource` in place of a `RolloutBatch`
(`RolloutDumpCallback.on_rollouts_at`). Under `writer.mode=ray` each writing actor reads its own part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from verl_rollout_dump.batch.rollout_batch import RolloutBatch
from verl_rollout_dump.config import DumpConfig


class RolloutSource(Protocol):
    """The n rollouts of one training step, not read yet. It can be pickled."""

    @property
    def step(self) -> int:
        """The number of the training step."""

    @property
    def uids(self) -> Sequence[str]:
        """The identities of the n rollouts, in the order of the records."""

    @property
    def padding_rows(self) -> int:
        """How many copies the trainer had added to fill the batch. They are not among the n rollouts."""

    def take(self, rows: Sequence[int]) -> RolloutSource:
        """Return a source of the chosen rollouts; `rows` are their numbers in rising order."""

    def read(self, config: DumpConfig) -> RolloutBatch:
        """Return the rollouts with the columns that the dump writes."""


def part_bounds(n: int, parts: int) -> list[tuple[int, int]]:
    """Return the first and the last row (exclusive) of each of so many parts of n rows; sizes differ by one at most."""
    return [(n * part // parts, n * (part + 1) // parts) for part in range(parts)]
