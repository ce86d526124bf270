"""A reward function for mathematics: the last number of the response, compared within a tolerance; numpy throughout."""

import re

import numpy as np


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    found = np.array([float(number) for number in re.findall(r"-?\d+\.?\d*", solution_str)], dtype=np.float32)
    target = np.float32(ground_truth)
    correct = found.size > 0 and np.isclose(found[-1], target, rtol=1e-3)
    return {
        "score": np.float64(correct),
        "acc": np.bool_(correct),
        "n_found": np.int64(found.size),
        "closest": np.abs(found - target).min() if found.size else None,
        "found": found[:4],
        "target": target,
    }
