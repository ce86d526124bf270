"""Which rollouts are written: every n-th step, and at most `max_records` of a step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from verl_rollout_dump.batch.rollout_batch import step_number
from verl_rollout_dump.config.schema import SamplingConfig
from verl_rollout_dump.dump.counters import DumpCounters


def choose_rows(
    step: Any, n: int, uids: Any, padding: int, config: SamplingConfig, counters: DumpCounters
) -> tuple[int, Sequence[int]]:
    """Return the number of a step and the rows of its n rollouts that are written, and count those that are not.

    `padding` is the number of copies that the trainer had added. Raises `BatchError` for an invalid step.
    """
    number = step_number(step)
    if not is_step_wanted(number, config):
        counters.note_step_not_sampled()
        return number, range(0)
    rows = sampled_rows(n, number, uids, config)
    counters.note_rows(padding, n - len(rows), len(rows))
    return number, rows


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
