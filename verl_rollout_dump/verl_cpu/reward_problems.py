"""What is wrong with the results of a reward function: what the dump would lose, and what verl refuses.

verl puts the score into a float32 tensor, pickles the rest to send it between its processes, and in its v0 trainer
makes an array of each column. Where one of these fails, the error appears far away from the reward function.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Sequence
from typing import Any

from verl_rollout_dump.batch.columns import columns_of
from verl_rollout_dump.config.schema import SerializationConfig
from verl_rollout_dump.serialization import ConversionReport, Serializer
from verl_rollout_dump.serialization.type_names import type_name
from verl_rollout_dump.serialization.values import ConversionError
from verl_rollout_dump.verl_cpu.ci import lossy_warnings

_ADVICE = "return numbers, text, lists and dicts"
_SCORE_ADVICE = "return a float, or a dict with a float under 'score'"
# verl loads a file under a module name that users do not know.
LOADED_FILE = re.compile(r"\bcustom_module_-?\d+\.")

_Results = Sequence[dict[str, Any]]


def problems_of(results: _Results, rules: SerializationConfig, put_score: Callable[[Any], None]) -> list[str]:
    """Return a sentence for each problem: which field, which type, what to return instead.

    `put_score` does with a score what the trainer does (a value of `SCORE_TENSORS`), and raises what it raises.
    """
    problems = _missing_scores(results) + _refused_scores(results, put_score)
    if put_score is put_into_batch:
        problems += _refused_by_v0(results)
    return problems + _lost_values(results, rules)


def _missing_scores(results: _Results) -> list[str]:
    """Return a problem if a result has no score."""
    return [] if all("score" in result for result in results) else ["field 'score' is missing; verl needs it"]


def _refused_scores(results: _Results, put_score: Callable[[Any], None]) -> list[str]:
    """Return a problem for the first score of each type that verl cannot use as a reward."""
    problems: dict[type, str] = {}
    for record, result in enumerate(results):
        score = result.get("score", 0.0)
        reason = _refusal_of(score, put_score)
        if reason:
            problems.setdefault(type(score), f"field 'score', record {record}: {reason}; {_SCORE_ADVICE}")
    return list(problems.values())


def _refusal_of(score: Any, put_score: Callable[[Any], None]) -> str:
    """Return what verl would do with a score that it cannot use; empty if it can."""
    if score is None:
        return "verl takes None for no score at all, and the training ends with KeyError: 'rm_scores'"
    try:
        put_score(score)
    except Exception as error:
        kind = type_name(type(score))
        return f"verl cannot put {kind} into its tensor of scores ({type(error).__name__}: {error})"
    return ""


def put_into_row(score: Any) -> None:
    """Put a score into the tensor of one rollout, as verl's v1 trainer does."""
    import torch

    torch.zeros(2, dtype=torch.float32)[-1] = score


def put_into_batch(score: Any) -> None:
    """Put scores into the tensor of a batch, as verl's v0 trainer does."""
    import torch

    rows = torch.arange(2)
    torch.zeros(2, 2, dtype=torch.float32)[rows, rows] = torch.tensor([score, score], dtype=torch.float32)


# `trainer.use_v1` -> what that trainer does with a score.
SCORE_TENSORS: dict[bool, Callable[[Any], None]] = {True: put_into_row, False: put_into_batch}


def _refused_by_v0(results: _Results) -> list[str]:
    """Return a problem for each extra that the v0 trainer cannot turn into an array."""
    import numpy as np

    problems = []
    for name in [name for name in results[0] if name != "score"]:
        without = [record for record, result in enumerate(results) if name not in result]
        if without:
            where = f"field {name!r}, record {without[0]}"
            problems.append(f"{where}: it is missing, and verl's v0 trainer raises KeyError; return None there")
            continue
        try:
            np.array([result[name] for result in results])
        except ValueError as error:
            problems.append(f"field {name!r}: verl's v0 trainer cannot make an array of it ({error})")
    return problems


def _lost_values(results: _Results, rules: SerializationConfig) -> list[str]:
    """Return a problem for each field that would not arrive in the dump as it was returned."""
    problems = []
    serializer = Serializer(rules)
    for name, values in columns_of(results).items():
        report = ConversionReport()
        try:
            serializer.convert_column(str(name), values, report)
        except ConversionError as error:
            problems.append(str(error))
            continue
        problems += lossy_warnings(report.as_list()) or _unpicklable(name, values)
    return problems


def _unpicklable(name: Any, values: Sequence[Any]) -> list[str]:
    """Return a problem if verl cannot send a field between its processes."""
    for record, value in enumerate(values):
        try:
            pickle.dumps(value)
        except Exception as error:
            kind = type_name(type(value))
            said = f"field {name!r}, record {record}: verl cannot send it between its processes ({kind}: {error})"
            return [f"{said}; {_ADVICE}"]
    return []
