"""The two sides of the comparison: verl 0.9.1's own dump and ours, given the same DataProto.

verl's functions are its installed ones, unwrapped: no seam of ours is in them. Ours is what stands in their place in a
training, called in the same way, so the seam itself and reading the DataProto are part of what is measured.
"""

from __future__ import annotations

import inspect
import os
import time
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np
import torch
from measuring import Row
from verl import DataProto
from verl.trainer.ppo import ray_trainer
from workload import SHAPES, TOKENIZERS, Shape, prompts, responses

from verl_rollout_dump import RolloutDumpCallback
from verl_rollout_dump.hooks import RolloutHooks
from verl_rollout_dump.integrations.verl.v0 import V0Adapter
from verl_rollout_dump.integrations.verl.wrappers import ATTRIBUTE, TrainerDump, fire_rollouts

vars(ray_trainer)["print"] = lambda *texts: None  # verl prints a line for every file


@dataclass
class TrainingBatch:
    """What verl's trainer has at the end of a step."""

    proto: DataProto
    extras: dict[str, Any]
    tokens: int


def training_batch(tokenizer: Any, shape: Shape) -> TrainingBatch:
    """Return a batch with ten columns of a reward function, nested dicts with numpy scalars among them."""
    prompt, response = prompts(tokenizer, shape), responses(tokenizer, shape)
    dice, n = np.random.default_rng(5), shape.rows
    rewards = torch.zeros(response.ids.shape, dtype=torch.float32)
    rewards[torch.arange(n), torch.from_numpy(response.stops - 1)] = torch.from_numpy(dice.random(n, np.float32))
    tensors = {
        "prompts": torch.from_numpy(prompt.ids),
        "responses": torch.from_numpy(response.ids),
        "attention_mask": torch.from_numpy(np.concatenate([prompt.mask, response.mask], axis=1)),
        "response_mask": torch.from_numpy(response.mask),
        "token_level_scores": rewards,
        "rollout_log_probs": torch.from_numpy(-dice.exponential(0.4, response.ids.shape).astype(np.float32)),
    }
    columns = {
        "uid": [f"{row // 8:032x}" for row in range(n)],
        "request_id": [f"request-{row:08d}" for row in range(n)],
        "reward_model": [{"ground_truth": str(row * 7), "style": "rule"} for row in range(n)],
    }
    others = {name: np.array(values, dtype=object) for name, values in columns.items()}
    tokens = int((response.stops - response.starts).sum() + (prompt.stops - prompt.starts).sum())
    return TrainingBatch(DataProto.from_dict(tensors=tensors, non_tensors=others), extras(n, dice), tokens)


def extras(n: int, dice: np.random.Generator) -> dict[str, Any]:
    """Return ten columns as reward functions give them."""
    return {
        "acc": (dice.random(n) < 0.5).tolist(),
        "reward": dice.random(n).tolist(),
        "length": dice.integers(0, 4096, n).tolist(),
        "pred": [f"\\boxed{{{row}}}" for row in range(n)],
        "format_ok": dice.random(n) < 0.9,
        "turns": dice.integers(1, 9, n),
        "entropy": dice.random(n, np.float32),
        "judge": [np.float64(value) for value in dice.random(n)],
        "data_source": ["gsm8k"] * n,
        "detail": [{"format": np.float32(row % 2), "n": np.int64(row), "message": "expected 42"} for row in range(n)],
    }


class VerlDump:
    """verl's `_log_rollout_data` on a trainer without anything else."""

    trainer_class: type = ray_trainer.RayPPOTrainer

    def __init__(self, tokenizer: Any, directory: Path) -> None:
        self._directory = directory
        self._trainer = object.__new__(self.trainer_class)
        self._trainer.tokenizer = tokenizer
        for name in ("_dump_generations", "_log_rollout_data"):
            method = inspect.unwrap(getattr(self.trainer_class, name))
            setattr(self._trainer, name, MethodType(method, self._trainer))
        self._trainer._init_dump_executor()

    def hand_over(self, step: int, batch: TrainingBatch) -> None:
        """Do what verl does on the training thread."""
        self._trainer.global_steps = step
        self._trainer._log_rollout_data(batch.proto, batch.extras, {}, str(self._directory))

    def finish(self) -> None:
        """Wait until the file is there."""
        for future in self._trainer._dump_futures:
            future.result()

    def close(self) -> None:
        """End its thread."""
        self._trainer._shutdown_dump_executor()


class OurTrainer:
    """A trainer with what stands in the place of verl's method, and what it asks a trainer for."""

    _log_rollout_data = fire_rollouts(V0Adapter())(inspect.unwrap(ray_trainer.RayPPOTrainer._log_rollout_data))

    def __init__(self, callback: RolloutDumpCallback) -> None:
        self.tokenizer, self.global_steps = callback.tokenizer, 0
        self.config: dict[str, object] = {}  # what decides whether a rollout can be rejected: by default none can
        setattr(self, ATTRIBUTE, TrainerDump(callback.config, RolloutHooks([callback])))


class OurDump:
    """Ours, with the defaults but for what `node` says."""

    trainer_class: type = OurTrainer

    def __init__(self, tokenizer: Any, directory: Path, **node: Any) -> None:
        self._directory = directory
        self.callback = RolloutDumpCallback.from_config({"path": {"dir": str(directory)}, **node}, tokenizer=tokenizer)
        self._trainer = self.trainer_class(self.callback)

    def hand_over(self, step: int, batch: TrainingBatch) -> None:
        """Do what is done on the training thread, reading the DataProto included."""
        self._trainer.global_steps = step
        self._trainer._log_rollout_data(batch.proto, batch.extras, {}, str(self._directory))

    def finish(self) -> None:
        """Wait until the file is there."""
        self.callback.flush()

    def close(self) -> None:
        """End the dump; nothing may have failed."""
        self.callback.close()
        report = self.callback.report
        assert not report.failures, report.failures


SETTLING_SECONDS = 0.02


def compute_until(end: float) -> None:
    """Keep this thread as busy as one that trains, until a time of `time.perf_counter`."""
    while time.perf_counter() < end:
        sum(range(1000))


SIDES = {"verl": VerlDump, "ours": OurDump}


def remove_steps(directory: Path) -> None:
    """Remove the step files, so that repeats fill no disk."""
    for path in directory.glob("*.jsonl*"):
        os.unlink(path)


class Bench:
    """What the parts share: the tokenizer, the shapes and their repeats, the batch made last, a counter of steps."""

    def __init__(self, tokenizer_name: str, repeats: dict[str, int]) -> None:
        self.tokenizer_name, self.repeats, self.shapes = tokenizer_name, repeats, list(repeats)
        self.tokenizer = TOKENIZERS[tokenizer_name]()
        self._batches: dict[str, TrainingBatch] = {}
        self._step = 0

    def batch(self, shape: str) -> TrainingBatch:
        """Return the batch of a shape; the one before is let go."""
        if shape not in self._batches:
            self._batches = {shape: training_batch(self.tokenizer, SHAPES[shape])}
        return self._batches[shape]

    def next_step(self) -> int:
        """Return a step that no file has yet."""
        self._step += 1
        return self._step


def dump_once(bench: Bench, dump: Any, batch: TrainingBatch) -> Row:
    """Dump a batch and return the milliseconds that it took, of each kind.

    Threads that a side woke may spin on when its file is there (torch's do, for some 8 ms): that is CPU of this
    side, not of the one that is measured next.
    """
    step = bench.next_step()
    cpu, start = time.process_time(), time.perf_counter()
    dump.hand_over(step, batch)
    returned = time.perf_counter()
    dump.finish()
    end, own = time.perf_counter(), time.thread_time()
    compute_until(end + SETTLING_SECONDS)
    cpu = time.process_time() - cpu - (time.thread_time() - own)
    return {"cpu_ms": cpu * 1e3, "call_ms": (returned - start) * 1e3, "done_ms": (end - start) * 1e3}
