"""Which rollouts of a batch are written: without the padding rows, and at most `max_records` of them.

Padding rows are what a trainer adds so that a batch divides evenly: copies whose response mask is zero throughout
(verl-project/verl#7785).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from verl_rollout_dump.batch.deferred import present
from verl_rollout_dump.batch.rollout_batch import RolloutBatch
from verl_rollout_dump.config.schema import SamplingConfig


@dataclass
class KeptRows:
    """The rows that are written, in the batch's order, and how many are not, by reason."""

    rows: list[int]
    padding: int
    not_sampled: int


NO_ROWS = KeptRows([], padding=0, not_sampled=0)


def kept_rows(batch: RolloutBatch, config: SamplingConfig) -> KeptRows:
    """Choose the rows of a batch."""
    real = all_real_rows(batch.response_mask, len(batch))
    chosen = sample(real.rows, batch, config.max_records)
    return replace(real, rows=chosen, not_sampled=len(real.rows) - len(chosen))


def all_real_rows(response_mask: Any, n: int) -> KeptRows:
    """Choose every row that is no padding."""
    real = real_rows(present(response_mask), n)
    return KeptRows(real, padding=n - len(real), not_sampled=0)


def real_rows(response_mask: Any, n: int) -> list[int]:
    """Return the rows that are no padding: those with a nonzero anywhere in their mask (n, response_length)."""
    if response_mask is None or n == 0:
        return list(range(n))
    if getattr(response_mask, "is_nested", False):
        return [row for row, mask in enumerate(response_mask.unbind()) if bool((mask != 0).any())]
    mask = response_mask if hasattr(response_mask, "ndim") else np.asarray(response_mask)
    # Most rows show at their first token that they are real; only the others are looked at whole.
    starts_real = mask[:, 0].tolist() if mask.shape[1] else [False] * n
    if all(starts_real):
        return list(range(n))
    return [row for row in range(n) if starts_real[row] or bool((mask[row] != 0).any())]


def sample(rows: list[int], batch: RolloutBatch, max_records: int | None) -> list[int]:
    """Choose `max_records` of the rows by a hash of step, uid and occurrence: the same in every run, in any order."""
    if max_records is None or len(rows) <= max_records:
        return rows
    seen: Counter[str] = Counter()
    ranks: dict[int, bytes] = {}
    for row in rows:
        uid = "" if batch.uids is None else str(batch.uids[row])
        key = f"{batch.step}\0{uid}\0{seen[uid]}"
        ranks[row] = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        seen[uid] += 1
    return sorted(sorted(rows, key=ranks.__getitem__)[:max_records])
