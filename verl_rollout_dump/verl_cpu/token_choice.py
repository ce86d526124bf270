"""How the next token is chosen: the parameters that verl passes (`SamplingParams`), and the sampling itself.

Every request has its own random generator, and one uniform number decides one token (inverse CDF). The tokens of a
request therefore do not depend on the other requests in its batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from verl_rollout_dump.verl_cpu.server_config import ROLLOUT_NAME


@dataclass(frozen=True)
class SamplingParams:
    """The sampling parameters of one request. Greedy decoding is `top_k=1`."""

    # Divides the logits; greater than 0.
    temperature: float = 1.0
    # Draw among this many most likely tokens; 0 for all.
    top_k: int = 0
    # Draw among the most likely tokens that together reach this probability; 0 < top_p <= 1.
    top_p: float = 1.0
    # Do not end at an end-of-text token.
    ignore_eos: bool = False

    @classmethod
    def from_verl(cls, params: Mapping[str, Any]) -> SamplingParams:
        """Read verl's sampling parameters (vLLM's names; temperature 0 means greedy, top_k -1 means all).

        Raises ValueError for parameters that this backend does not support.
        """
        unknown = sorted(set(params) - set(_SUPPORTED))
        if unknown:
            raise ValueError(
                f"The rollout backend {ROLLOUT_NAME} does not know the sampling parameters {unknown}; "
                f"it knows {sorted(_SUPPORTED)}."
            )
        if params.get("repetition_penalty", 1.0) != 1.0:
            raise ValueError(
                f"repetition_penalty={params['repetition_penalty']} is not supported by the rollout backend "
                f"{ROLLOUT_NAME}: leave it at 1.0."
            )
        temperature = float(params.get("temperature", 1.0))
        if temperature == 0:
            return cls(top_k=1, ignore_eos=bool(params.get("ignore_eos", False)))
        return cls(
            temperature=temperature,
            top_k=max(0, int(params.get("top_k", 0))),
            top_p=float(params.get("top_p", 1.0)),
            ignore_eos=bool(params.get("ignore_eos", False)),
        )

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature={self.temperature}: expected 0 (greedy) or more.")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p}: expected a number above 0 and up to 1.")


_SUPPORTED = (
    "temperature",
    "top_k",
    "top_p",
    "ignore_eos",
    "repetition_penalty",
    "logprobs",  # log probabilities are always returned
    "max_tokens",
    "max_new_tokens",
)


def choose_tokens(
    logits: torch.Tensor, params: Sequence[SamplingParams], uniforms: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose one token for each row.

    `logits`: (n, vocabulary), any float dtype. `uniforms`: (n,) float64 in [0, 1).
    Returns the tokens (n,) int64 and their log probabilities (n,) float32. The log probability is that of the
    whole distribution at the row's temperature, before top_k and top_p: verl's trainer computes the same.
    """
    temperatures = torch.tensor([p.temperature for p in params]).unsqueeze(-1)
    log_probs = (logits.float() / temperatures).log_softmax(dim=-1)
    weights, candidates = _candidates(log_probs, params)
    index = _inverse_cdf(weights, uniforms).unsqueeze(-1)
    tokens = index if candidates is None else candidates.gather(-1, index)
    return tokens.squeeze(-1), log_probs.gather(-1, tokens).squeeze(-1)


def _candidates(log_probs: torch.Tensor, params: Sequence[SamplingParams]) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return weights (n, k) float64, and which token each stands for (None: all tokens in their order)."""
    vocabulary = log_probs.shape[-1]
    top_k = torch.tensor([p.top_k or vocabulary for p in params]).unsqueeze(-1)
    top_p = torch.tensor([p.top_p for p in params], dtype=torch.float64).unsqueeze(-1)
    deepest = min(int(top_k.max()), vocabulary)
    if deepest == vocabulary and bool((top_k >= vocabulary).all()) and bool((top_p >= 1).all()):
        return log_probs.double().exp(), None
    likely, tokens = log_probs.topk(deepest, dim=-1)
    weights = likely.double().exp()
    reached_before = weights.cumsum(dim=-1) - weights
    outside = (torch.arange(deepest) >= top_k) | (reached_before >= top_p)
    return weights.masked_fill(outside, 0.0), tokens


def _inverse_cdf(weights: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Return the index (n,) at which each row's cumulated weight passes its uniform number."""
    cumulated = weights.cumsum(dim=-1)
    total = cumulated[:, -1]
    # Rounding must not lift the point to the total, or an index of weight zero would be drawn.
    point = torch.minimum(uniforms * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulated, point.unsqueeze(-1), right=True).squeeze(-1)
