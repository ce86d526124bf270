"""Dumps to read."""

import json

import pytest
from typer.testing import CliRunner

from verl_rollout_dump.cli import app


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
