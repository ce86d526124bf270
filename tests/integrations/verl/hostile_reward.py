"""A reward function that returns every awkward type that verl lets through, and keys that only some rollouts have.

verl's v0 trainer makes an array of each key that sample 0 has: it fails where another sample lacks the key, or has a
list of another length. `SPARSE=no` keeps them equal.
For a validation it takes the mean of every extra, so these are numbers there.
"""

import datetime
import os

import numpy as np
import torch

IS_SPARSE = os.environ.get("SPARSE", "yes") == "yes"


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **_):
    index = int((extra_info or {}).get("index", 0))
    if (extra_info or {}).get("split") != "train":
        return {"score": index % 3 / 2, "acc": np.bool_(index % 2), "count": np.int64(index)}
    values = {
        "score": index % 3 / 2,
        "acc": np.bool_(index % 2),
        "count": np.int64(index),
        "ratio": np.float32(0.1),
        "nested": {"a": np.int64(1), "b": {"c": np.float32(0.5), "d": [np.bool_(False)]}},
        "nan": float("nan"),
        "scalar_tensor": torch.tensor(1.5),
        "tensor": torch.tensor([1, 2]),
        "ragged": list(range(index % 3 if IS_SPARSE else 2)),
        "array": np.array([1.5, 2.5], dtype=np.float32),
        "a_set": {1, 2},
        "date": datetime.datetime(2026, 1, 2),
        "text": "é\u2028\x85",
        "none": None,
    }
    if IS_SPARSE and index % 2:
        values["only_odd"] = index
    return values
