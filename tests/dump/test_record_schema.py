"""The published schema of a record, and that dumps keep it."""

import json

import jsonschema
import numpy as np
import pytest

from verl_rollout_dump import RolloutDumpCallback, load_config
from verl_rollout_dump.dump.record_schema import record_schema

EXTRAS = {
    "acc": np.array([True, False, True]),
    "raw": [b"x", None, 2**2000],
    "complex": [1j, 2 + 1j, 0j],
    "unknown": [object(), {"$bytes": "mine"}, {"a": {"b": [1, "x"]}}],
    "nan": [float("nan"), float("inf"), 1.0],
}
CONFIGS = [
    {},
    {"fields": {"include": ["input", "output", "gts", "score", "step", "uid"]}},
    {"fields": {"include": ["score", "a*"], "exclude": ["step"]}},
    {"fields": {"include": ["input", "raw", "never"]}},
    {"serialization": {"strategy": "str_fallback"}},
    {"serialization": {"non_finite": "string"}},
    {"serialization": {"max_chars": 1}},
    {"fields": {"tokens": True}},
]


@pytest.mark.parametrize("config", CONFIGS)
def test_every_line_validates_against_the_schema_of_its_config(tmp_path, batch, read_strict, config):
    node = {"path": {"dir": str(tmp_path)}, **config}
    with RolloutDumpCallback.from_config(node) as callback:
        callback.on_rollout_end(
            batch(
                extras=EXTRAS,
                scores=np.array([1, np.nan, 0.5], np.float32),
                uids=["u", "v", "w"],
                outcomes=["trained", "rejected", "trained"],
            )
        )
    schema = record_schema(load_config(node))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for record in read_strict(tmp_path / "7.jsonl"):
        assert [error.message for error in validator.iter_errors(record)] == []
        assert set(schema["required"]) <= set(record)


@pytest.mark.parametrize(
    ("config", "record"),
    [
        ({}, {"input": 1}),
        ({}, {"step": "7"}),
        ({}, {"score": "1.0"}),
        ({}, {"acc": {"$bytes": "not base64!"}}),
        ({}, {"acc": {"$marker": {"type": "x"}}}),
        ({"fields": {"include": ["input", "output", "gts", "score", "step"]}}, {"acc": 1}),
    ],
)
def test_what_a_dump_never_holds_is_refused(config, record):
    plain = {"input": "p", "output": "o", "gts": None, "score": 1.0, "step": 7}
    validator = jsonschema.Draft202012Validator(record_schema(load_config(config)))
    assert validator.is_valid(plain)
    assert not validator.is_valid({**plain, **record})
    assert not validator.is_valid({name: value for name, value in plain.items() if name != "score"})


def test_the_order_is_that_of_the_records():
    assert list(record_schema(load_config())["properties"]) == [
        *("input", "output", "gts", "score", "step", "uid", "request_id", "outcome")
    ]
    assert json.dumps(record_schema(load_config()))
