"""Outcomes: what a trainer did with a rollout."""

from __future__ import annotations

from typing import Any

TRAINED = "trained"  # it counted in the loss
REJECTED = "rejected"  # its loss mask is zero throughout, so it counted in no loss
OUTCOMES = (TRAINED, REJECTED)


def outcomes_of_masks(loss_mask: Any) -> list[str]:
    """Return the outcome of each rollout, by a loss mask (n, length): a tensor, also a jagged one, or an array."""
    is_jagged = getattr(loss_mask, "is_nested", False)
    rows = [row.any() for row in loss_mask.unbind()] if is_jagged else (loss_mask != 0).any(-1).tolist()
    return [TRAINED if row else REJECTED for row in rows]
