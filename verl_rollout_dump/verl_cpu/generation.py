"""Generate responses to many prompts at once: a left-padded batch with a KV cache; finished rows leave the batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from verl_rollout_dump.verl_cpu.token_choice import SamplingParams, choose_tokens


@dataclass(frozen=True)
class Request:
    """One prompt to continue."""

    prompt_ids: Sequence[int]
    max_tokens: int
    sampling: SamplingParams = field(default_factory=SamplingParams)
    # Seeds this request's own random generator.
    seed: int = 0


@dataclass
class Response:
    """The tokens of one response, the end-of-text token included, and the log probability of each."""

    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    # True if generation was stopped from outside before the response had ended.
    aborted: bool = False


@dataclass
class _Row:
    """A request that is being answered."""

    request: Request
    response: Response
    random: torch.Generator

    def append(self, token: int, log_prob: float) -> None:
        self.response.token_ids.append(token)
        self.response.log_probs.append(log_prob)

    def ended(self, end_tokens: Collection[int]) -> bool:
        token_ids = self.response.token_ids
        at_end_token = token_ids[-1] in end_tokens and not self.request.sampling.ignore_eos
        return at_end_token or len(token_ids) >= self.request.max_tokens


def _never() -> bool:
    """Do not stop early."""
    return False


class BatchGenerator:
    """Continues batches of prompts with a causal language model of transformers.

    Rows do not influence each other: a prompt gets the same response in any batch, up to the rounding of
    matrix products of another shape (about 1e-6 in a log probability, in float32).
    """

    def __init__(self, model: Any, end_tokens: Collection[int]) -> None:
        self.model = model
        self.end_tokens = frozenset(end_tokens)

    def generate(self, requests: Sequence[Request], stopped: Callable[[], bool] = _never) -> list[Response]:
        """Return one response for each request, in order.

        `stopped` is called before every token. When it returns True, unfinished responses are returned as they are,
        marked as aborted.
        """
        rows = [_Row(r, Response(), torch.Generator().manual_seed(r.seed)) for r in requests]
        with torch.inference_mode():
            unfinished = self._run(rows, stopped)
        for row in unfinished:
            row.response.aborted = True
        return [row.response for row in rows]

    def _run(self, rows: list[_Row], stopped: Callable[[], bool]) -> list[_Row]:
        """Generate until every row has ended; return the rows that had not ended when `stopped` returned True."""
        tokens, attention_mask = _pad_left([row.request.prompt_ids for row in rows])
        positions = (attention_mask.cumsum(dim=-1) - 1).clamp(min=0)
        cache = None
        while rows:
            if stopped():
                return rows
            output = self.model(
                input_ids=tokens,
                attention_mask=attention_mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            cache = output.past_key_values
            chosen = self._append_tokens(rows, output.logits[:, -1])
            keep = [i for i, row in enumerate(rows) if not row.ended(self.end_tokens)]
            if not keep:
                break
            if len(keep) < len(rows):
                rows = [rows[i] for i in keep]
                kept = torch.tensor(keep)
                chosen, attention_mask, positions = chosen[kept], attention_mask[kept], positions[kept]
                cache.batch_select_indices(kept)
            tokens = chosen.unsqueeze(-1)
            attention_mask = torch.nn.functional.pad(attention_mask, (0, 1), value=1)
            positions = positions[:, -1:] + 1
        return []

    def _append_tokens(self, rows: list[_Row], logits: torch.Tensor) -> torch.Tensor:
        """Choose a token for every row from its logits (n, vocabulary), and return them (n,)."""
        uniforms = torch.stack([torch.rand((), dtype=torch.float64, generator=row.random) for row in rows])
        chosen, log_probs = choose_tokens(logits, [row.request.sampling for row in rows], uniforms)
        for row, token, log_prob in zip(rows, chosen.tolist(), log_probs.tolist(), strict=True):
            row.append(token, log_prob)
        return chosen


def _pad_left(prompts: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids (n, longest) int64, padded on the left with 0, and the mask (n, longest) of real ones."""
    longest = max(len(prompt) for prompt in prompts)
    tokens = torch.zeros(len(prompts), longest, dtype=torch.int64)
    mask = torch.zeros_like(tokens)
    for row, prompt in enumerate(prompts):
        tokens[row, longest - len(prompt) :] = torch.tensor(prompt, dtype=torch.int64)
        mask[row, longest - len(prompt) :] = 1
    return tokens, mask


def end_tokens_of(model: Any) -> frozenset[int]:
    """Return the end-of-text tokens that the model's generation config names (or else its own config)."""
    named = model.generation_config.eos_token_id
    if named is None:
        named = model.config.eos_token_id
    return frozenset([named] if isinstance(named, int) else named or [])
