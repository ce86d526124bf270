"""The dumps that docs/reading.md looks at: small, the same every time, with something to find in them.

`rollouts` learns additions; `other` is the same with a worse learning rate; `broken` has what verl's own writer, a
crash and `default=str` leave behind.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

STEPS, PROMPTS, ROLLOUTS = 6, 4, 4


def make_dumps(folder: Path) -> None:
    """Write `rollouts`, `other` and `broken` into a folder."""
    write_run(folder / "rollouts", skill=0.17)
    write_run(folder / "other", skill=0.1)
    broken = folder / "broken"
    broken.mkdir()
    (broken / "1.jsonl").write_text(
        '{"input": "3 + 4 =", "output": "7", "gts": "7", "score": NaN, "acc": "True", "n": "3"}\n'
        '{"input": "3 + 5 =", "output": "8", "gts": "8", "score": 1.0, "acc": "False", "n": "4"}\n'
    )
    (broken / "3.jsonl").write_text('{"input": "1 + 1 =", "output": "2", "gts": "2", "score": 1.0, "ac')


def write_run(folder: Path, skill: float) -> None:
    """Write one run; `skill` is what each step adds to the chance of a right answer."""
    folder.mkdir(parents=True)
    chance = random.Random(7)
    for step in range(1, STEPS + 1):
        records = [
            rollout(step, prompt, number, chance.random() < skill * step)
            for prompt in range(PROMPTS)
            for number in range(ROLLOUTS)
        ]
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{step}.jsonl").write_text(lines)


def rollout(step: int, prompt: int, number: int, is_right: bool) -> dict[str, object]:
    """Return one record."""
    a, b = 3 + prompt, 4 + 2 * prompt
    answer = a + b if is_right else a + b - 1 - (number + step) % 3
    return {
        "input": f"What is {a} + {b}? Think, then answer with one number.",
        "output": f"<think>{a} and {b} make {answer}.</think> The answer is {answer}.",
        "gts": str(a + b),
        "score": 1.0 if is_right else 0.1,
        "step": step,
        "uid": f"{step:02}{prompt:02}_{number}_0",
        "acc": is_right,
        "reward": {"correct": float(is_right), "format": 1.0},
    }
