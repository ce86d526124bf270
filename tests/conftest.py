"""What tests share: strict reading, a dump of one batch, dumps to read. Real verl is in `real_verl`."""

import json
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from verl_rollout_dump import RolloutBatch, RolloutDumpCallback
from verl_rollout_dump.cli import app

pytest_plugins = ["real_verl"]


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
            callback.on_rollout_end(batch(n=n, extras={} if extras is None else extras, **columns))
        path = directory / "7.jsonl"
        return (strict_lines(path) if path.exists() else None), callback.report

    return run


def record(step=1, index=0, **fields):
    given = {
        "input": f"prompt {index // 2}",
        "output": f"response {step}.{index}",
        "gts": str(index // 2),
        "score": float(index % 2),
        "step": step,
        "uid": f"uid{step}p{index // 2}_{index % 2}_0",
        "acc": bool(index % 2),
    }
    return {**given, **fields}


@pytest.fixture
def make_record():
    return record


@pytest.fixture
def write_step(tmp_path):
    """Write records, or bytes, as a file of the dump `tmp_path / "dump"`; return the dump."""

    def write(name, content):
        dump = tmp_path / "dump"
        dump.mkdir(exist_ok=True)
        if not isinstance(content, bytes):
            content = b"".join(json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in content)
        (dump / name).write_bytes(content)
        return dump

    return write


@pytest.fixture
def small_dump(write_step):
    """Three steps of four records: two groups of two; scores 0 and 1 in turn, in step 3 all 1."""
    for step in (1, 2, 10):
        given = {"score": 1.0, "acc": True} if step == 10 else {}
        dump = write_step(f"{step}.jsonl", [record(step, index, **given) for index in range(4)])
    return dump


@pytest.fixture
def run():
    """Run the command in this process; return the result of typer's runner."""

    def invoke(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "160"})

    return invoke
