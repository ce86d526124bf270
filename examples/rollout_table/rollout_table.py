"""A user's own callback: for every training step, a small table of the scores and of every numeric extra."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from verl_rollout_dump import RolloutBatch, RolloutCallback
from verl_rollout_dump.batch.columns import columns_of

TITLES = ("rollouts", "mean", "least", "most")


class RolloutTable(RolloutCallback):
    """Prints a table for each step, and the response with the highest score."""

    # The integration sets the trainer's tokenizer here, if this is None, before the first batch.
    tokenizer: Any = None

    def on_rollout_end(self, batch: RolloutBatch) -> None:
        """Print the table. Called on the trainer's thread when all rollouts of a step are scored."""
        extras = batch.extras if isinstance(batch.extras, Mapping) else columns_of(batch.extras)
        columns = numeric_columns({"score": batch.scores, **extras})
        lines = table(f"step {batch.step}", columns)
        scores = columns.get("score", [])
        if scores:
            best = max(range(len(scores)), key=scores.__getitem__)
            lines.append(f"best response: {self.text(batch.responses[best])!r}")
        print("\n".join(lines), flush=True)

    def text(self, response: Any) -> str:
        """Return a response as text: trainers hand over token ids or text."""
        return response if isinstance(response, str) else self.tokenizer.decode(response, skip_special_tokens=True)


def numeric_columns(columns: dict[str, Any]) -> dict[str, list[float]]:
    """Return the columns that hold one number per rollout: lists, arrays and tensors of numbers, numpy's included."""
    found = {}
    for name, values in columns.items():
        numbers = [as_number(value) for value in values] if isinstance(values, Iterable) else []
        if numbers and None not in numbers:
            found[name] = [number for number in numbers if number is not None]
    return found


def as_number(value: Any) -> float | None:
    """Return a number as a float; None for anything else."""
    value = value.item() if getattr(value, "shape", None) == () else value
    return float(value) if isinstance(value, Real) else None


def table(title: str, columns: dict[str, list[float]]) -> list[str]:
    """Return a table as lines: one row for each column."""
    width = max(map(len, [title, *columns]))
    lines = [row(title, TITLES, width)]
    for name, values in columns.items():
        cells = (sum(values) / len(values), min(values), max(values))
        lines.append(row(name, [str(len(values)), *(f"{cell:.3f}" for cell in cells)], width))
    return lines


def row(name: str, cells: Sequence[str], width: int) -> str:
    """Return one line of a table."""
    return f"{name:<{width}}" + "".join(f" | {cell:>9}" for cell in cells)


class AlwaysRaises(RolloutCallback):
    """Shows what a bug in a callback does: it is logged with its traceback, and nothing else is affected."""

    def on_rollout_end(self, batch: RolloutBatch) -> None:
        """Raise."""
        raise RuntimeError(f"a bug in a callback, at step {batch.step}")

    def on_train_end(self) -> None:
        """Raise."""
        raise RuntimeError("a bug in a callback, at the end")
