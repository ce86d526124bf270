"""A task that is small enough for a CPU: additions as prompts, and a reward function that checks the sum."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

_DATA_SOURCE = "arithmetic"
_TRAIN_QUESTIONS = 64
_VALIDATION_QUESTIONS = 8

# The score of a wrong number. Without it a weak model would learn nothing.
_NUMBER_CREDIT = 0.1


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any] | None = None, **_: Any
) -> dict[str, Any]:
    """Score a response: 1 if its last number is the ground truth, 0.1 if it has a number at all, else 0.

    Returns `score` (float) and extras in the types that reward functions commonly return: `acc`
    (np.bool_), `n_numbers` (np.int64), `len` (np.float32, in characters).
    """
    numbers = re.findall(r"-?\d+", solution_str)
    correct = bool(numbers) and numbers[-1] == str(ground_truth)
    return {
        "score": 1.0 if correct else _NUMBER_CREDIT * bool(numbers),
        "acc": np.bool_(correct),
        "n_numbers": np.int64(len(numbers)),
        "len": np.float32(len(solution_str)),
    }


def question(index: int, split: str) -> dict[str, Any]:
    """Return one row in verl's data format. Both addends run through 0 to 9 in a mixed order."""
    first, second = (index * 7 + 3) % 10, (index * 3 + index // 10 + 1) % 10
    return {
        "data_source": _DATA_SOURCE,
        "prompt": [{"role": "user", "content": f"What is {first} + {second}? Answer with one number."}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(first + second)},
        "extra_info": {"index": index, "split": split},
    }


def write_questions(folder: Path) -> None:
    """Write `train.parquet` and `val.parquet` into `folder`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    indices_of = {"train": range(_TRAIN_QUESTIONS)}
    indices_of["val"] = range(_TRAIN_QUESTIONS, _TRAIN_QUESTIONS + _VALIDATION_QUESTIONS)
    for split, indices in indices_of.items():
        table = pa.Table.from_pylist([question(index, split) for index in indices])
        pq.write_table(table, folder / f"{split}.parquet")
