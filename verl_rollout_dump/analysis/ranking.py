"""The order of records by score. Equal scores: a record of each prompt before a second one, late steps first.

Most scores are equal (0 or 1), and a hundred records of the first step would show little.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from verl_rollout_dump.reader import Dump, Row

_Place = tuple[int, int]  # step, index


def best_first(dump: Dump, steps: Collection[int], sign: float) -> Iterator[_Place]:
    """Yield the records of some steps that have a finite score, from the index; the lowest `sign * score` first."""
    columns = dump.columns("score", "step", "index", "prompt_group")
    wanted = np.isfinite(columns["score"]) & np.isin(columns["step"], np.fromiter(steps, np.int64))
    scores, step, index, prompt = (columns[name][wanted] for name in ("score", "step", "index", "prompt_group"))
    return _in_order(sign * scores, step, index, prompt)


def best_of_rows(dump: Dump, rows: Iterable[Row], sign: float) -> Iterator[_Place]:
    """Yield the places of the rows that have a finite score; the lowest `sign * score` first."""
    keys, places = array("d"), array("q")
    for row in rows:
        score = dump.fields.score_of(row.record)
        if score is not None and math.isfinite(score):
            keys.append(sign * score)
            places.extend((row.step, row.index, hash(dump.fields.text(row.record, "prompt"))))
    step, index, prompt = np.array(places, np.int64).reshape(-1, 3).T
    return _in_order(np.array(keys), step, index, prompt)


def _in_order(
    keys: NDArray[np.float64], steps: NDArray[np.int64], indexes: NDArray[np.int64], prompts: NDArray[np.generic]
) -> Iterator[_Place]:
    """Yield places by ascending key; see the head of this file for equal keys."""
    repeats = _repeats(np.lexsort((indexes, -steps, prompts, keys)), keys, prompts)
    order = np.lexsort((indexes, -steps, repeats, keys))
    return zip(steps[order].tolist(), indexes[order].tolist(), strict=True)


def _repeats(order: NDArray[np.intp], keys: NDArray[np.float64], prompts: NDArray[np.generic]) -> NDArray[np.intp]:
    """Return for each record how many with the same key and prompt precede it in an order that keeps these together."""
    is_first = np.ones(len(order), bool)
    is_first[1:] = (keys[order][1:] != keys[order][:-1]) | (prompts[order][1:] != prompts[order][:-1])
    starts = np.flatnonzero(is_first)
    places = np.arange(len(order))
    repeats = np.empty(len(order), np.intp)
    repeats[order] = places - starts[np.cumsum(is_first) - 1] if len(order) else places
    return repeats
