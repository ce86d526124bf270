"""What tests of the dump share."""

import json
from pathlib import Path

import orjson
import pytest

from verl_rollout_dump import RolloutBatch, RolloutDumpCallback


def refuse_constant(name):
    raise AssertionError(f"{name} is not JSON")


def strict_lines(path):
    """The records of a file, after every check that a strict reader would make."""
    data = Path(path).read_bytes()
    assert data.endswith(b"\n")
    lines = data.decode("utf-8").splitlines()
    assert len(lines) == data.count(b"\n")
    for line in lines:
        assert orjson.loads(line) == json.loads(line, parse_constant=refuse_constant)
    return [json.loads(line) for line in lines]


@pytest.fixture
def read_strict():
    return strict_lines


@pytest.fixture
def batch():
    """Make a batch of n text rollouts."""

    def make(n=3, step=7, **columns):
        given = {
            "prompts": [f"p{i}" for i in range(n)],
            "responses": [f"o{i}" for i in range(n)],
            "scores": [float(i) for i in range(n)],
            "ground_truths": ["g"] * n,
        }
        return RolloutBatch(step=step, **{**given, **columns})

    return make


@pytest.fixture
def dump(tmp_path, batch):
    """Dump one batch with a config, and return its records and the report."""

    def run(extras=None, config=None, n=3, tokenizer=None, **columns):
        directory = tmp_path / "dump"
        node = {"path": {"dir": str(directory)}, **(config or {})}
        with RolloutDumpCallback.from_config(node, tokenizer=tokenizer) as callback:
            callback.on_rollout_end(batch(n=n, extras=extras or {}, **columns))
        path = directory / "7.jsonl"
        return (strict_lines(path) if path.exists() else None), callback.report

    return run
