"""A reward function that returns a tensor, which is written as numbers, and an object of its own, which cannot be."""

import torch


class Verdict:
    """What a judge says."""

    def __init__(self, reason):
        self.reason = reason


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    return {
        "score": float(str(ground_truth) in solution_str),
        "votes": torch.tensor([0.25, 0.5]),
        "judge": {"model": "rules", "verdicts": [Verdict("too short")]},
    }
