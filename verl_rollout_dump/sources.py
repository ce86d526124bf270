"""Rollouts that lie elsewhere: described here, read where they are to be written.

A trainer whose batch is too large for its own process hands over a `RolloutSource` in place of a `RolloutBatch`
(`RolloutDumpCallback.on_rollouts_at`). Under `writer.mode=ray` each writing actor reads its own part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from verl_rollout_dump.config import DumpConfig
from verl_rollout_dump.rollouts import RolloutBatch


class RolloutSource(Protocol):
    """The rollouts of one step, not read yet. It can be pickled."""

    step: int

    def split(self, parts: int) -> Sequence[RolloutSource]:
        """Return the same rollouts in so many parts, in their order; a part may be empty."""

    def read(self, config: DumpConfig) -> RolloutBatch:
        """Return the rollouts."""


def bounds(n: int, parts: int) -> list[tuple[int, int]]:
    """Return where each of so many parts of n rows begins and ends: sizes differ by one at most."""
    return [(n * part // parts, n * (part + 1) // parts) for part in range(parts)]
