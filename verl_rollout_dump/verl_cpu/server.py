"""The rollout server: a Ray actor that answers verl's agent loops with a transformers model on the CPU."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from verl.workers.rollout.replica import TokenOutput

from verl_rollout_dump.verl_cpu.batching import BatchQueue
from verl_rollout_dump.verl_cpu.generation import BatchGenerator, Request, Response, end_tokens_of
from verl_rollout_dump.verl_cpu.server_config import ROLLOUT_NAME, ServerConfig
from verl_rollout_dump.verl_cpu.token_choice import SamplingParams

# Why the queue's gate is closed.
_ABORTED = "abort_all_requests"
_LOADING = "load_weights"


class GenerationServer:
    """Generates in float32, in batches of the requests that arrive together.

    The same prompts, weights version and seed give the same responses, in whatever order the requests arrive: the
    k-th request for a prompt since the weights were loaded has a seed made from (seed, version, prompt, k).
    """

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.model = load_model(config.model_path)
        self.max_context = int(self.model.config.max_position_embeddings)
        self.global_steps: int | None = None  # the version of the weights: verl's step that produced them
        self._generator = BatchGenerator(self.model, end_tokens_of(self.model))
        self._abort = threading.Event()
        self._reject = False
        self._times_requested: Counter[tuple[int, ...]] = Counter()
        self._loaded_names: set[str] = set()
        self._queue: BatchQueue[Request, Response] = BatchQueue(self._run_batch, config.max_batch)

    def _run_batch(self, requests: list[Request]) -> Sequence[Response]:
        return self._generator.generate(requests, stopped=self._abort.is_set)

    async def ready(self) -> bool:
        """Return once the model is loaded."""
        return True

    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: Sequence[int],
        sampling_params: Mapping[str, Any],
        image_data: Any = None,
        video_data: Any = None,
    ) -> TokenOutput:
        """Continue one prompt; what verl's `LLMServerClient` calls."""
        if image_data or video_data:
            raise ValueError(f"The rollout backend {ROLLOUT_NAME} takes text only: the prompt has images or videos.")
        if self._reject:
            return self._output(Response(aborted=True))
        return self._output(await self._queue.submit(self._request(prompt_ids, sampling_params)))

    def _request(self, prompt_ids: Sequence[int], sampling_params: Mapping[str, Any]) -> Request:
        prompt = tuple(int(token) for token in prompt_ids)
        nth = self._times_requested[prompt]
        self._times_requested[prompt] += 1
        return Request(
            prompt_ids=prompt,
            max_tokens=self._max_tokens(len(prompt), sampling_params),
            sampling=SamplingParams.from_verl({"ignore_eos": self.config.ignore_eos, **sampling_params}),
            seed=_request_seed(self.config.seed, self.global_steps, prompt, nth),
        )

    def _max_tokens(self, prompt_length: int, sampling_params: Mapping[str, Any]) -> int:
        room = self.max_context - prompt_length
        if room < 1:
            raise ValueError(
                f"The prompt has {prompt_length} tokens and the model takes {self.max_context}: no room for a "
                "response. Set data.max_prompt_length lower."
            )
        budget = self.config.prompt_length + self.config.response_length - prompt_length
        wanted = sampling_params.get("max_tokens", sampling_params.get("max_new_tokens"))
        if wanted is None:
            wanted = min(self.config.response_length, budget)
        return max(1, min(int(wanted), room))

    def _output(self, response: Response) -> TokenOutput:
        return TokenOutput(
            token_ids=response.token_ids,
            log_probs=response.log_probs,
            stop_reason="aborted" if response.aborted else "completed",
            extra_fields={"global_steps": self.global_steps},
        )

    async def load_weights(self, weights: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Copy a part of the model's weights in (name -> array of the parameter's shape).

        No batch starts between the first part and `finish_weights`: none sees two versions.
        """
        self._queue.gate.close(_LOADING)
        await self._queue.idle()
        parameters = self.model.state_dict(keep_vars=True)
        for name, array in weights.items():
            if name not in parameters:
                raise KeyError(f"The trainer sent the weight {name!r}, which {self.config.model_path} does not have.")
            np.copyto(parameters[name].detach().numpy(), array)
        self._loaded_names.update(weights)

    async def finish_weights(self, global_steps: int | None) -> None:
        """Make the loaded weights version `global_steps` and generate again. Raises ValueError if any is missing."""
        missing = sorted({name for name, _ in self.model.named_parameters()} - self._loaded_names)
        if missing:
            raise ValueError(
                f"The trainer sent {len(self._loaded_names)} weights, but not {missing[:3]} ({len(missing)} in "
                f"all are missing). Is actor_rollout_ref.model.path={self.config.model_path} what is trained?"
            )
        self._loaded_names.clear()
        self._times_requested.clear()
        self.global_steps = global_steps
        self._queue.gate.open(_LOADING)

    async def abort_all_requests(self, reject_request: bool = False) -> None:
        """Return unfinished responses as they are; hold (or reject) new requests until `resume_generation`."""
        self._reject = reject_request
        self._queue.gate.close(_ABORTED)
        self._abort.set()
        self._queue.answer_waiting(lambda: Response(aborted=True))
        await self._queue.idle()

    async def resume_generation(self) -> None:
        """Accept requests again."""
        self._reject = False
        self._abort.clear()
        self._queue.gate.open(_ABORTED)

    async def _nothing_to_do(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: there is no device memory, no cache that outlives a batch and no device profiler."""

    wake_up = sleep = clear_kv_cache = release_kv_cache = resume_kv_cache = _nothing_to_do
    start_profile = stop_profile = _nothing_to_do


def load_model(path: str) -> Any:
    """Load the causal language model of a Hugging Face folder in float32, for inference."""
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()


def _request_seed(seed: int, version: int | None, prompt: Sequence[int], nth: int) -> int:
    """Return the 63-bit seed of the nth request for a prompt at one version of the weights."""
    text = f"{seed}|{version}|{nth}|{','.join(map(str, prompt))}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
