"""A reward function for code: every test case with its own result, nested as test runners report them."""

import numpy as np

CASES = {"adds": (2, 3, 5), "adds nothing": (7, 0, 7), "carries": (9, 9, 18)}


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    cases = {
        name: {
            "passed": np.bool_(str(expected) in solution_str),
            "seconds": np.float32(len(solution_str)) / np.float32(1000),
            "input": (np.int64(first), np.int64(second)),
            "stderr": None if solution_str else "no code",
        }
        for name, (first, second, expected) in CASES.items()
    }
    passed = np.array([case["passed"] for case in cases.values()])
    return {"score": passed.mean(), "passed": passed.sum(), "all_passed": passed.all(), "cases": cases}
