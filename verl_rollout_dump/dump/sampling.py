"""Which rollouts are written: every n-th step, and at most `max_records` of a step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from verl_rollout_dump.config.schema import SamplingConfig


def is_step_wanted(step: int, config: SamplingConfig) -> bool:
    """Return whether the rollouts of a step are written."""
    return step % config.every_n_steps == 0


def sampled_rows(n: int, step: int, uids: Any, config: SamplingConfig) -> Sequence[int]:
    """Return the numbers of the rows that are written, in rising order.

    `uids` are n identities or None. The choice is by a hash of step, uid and occurrence: the same in every run and
    for every writer, whatever the order of the batch.
    """
    most = config.max_records
    if most is None or n <= most:
        return range(n)
    seen: Counter[str] = Counter()
    ranks: list[bytes] = []
    for row in range(n):
        uid = "" if uids is None else str(uids[row])
        key = f"{step}\0{uid}\0{seen[uid]}"
        ranks.append(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        seen[uid] += 1
    return sorted(sorted(range(n), key=ranks.__getitem__)[:most])
