"""`path.leftovers`: files of steps that a shorter rerun did not reach."""

import json

import pytest

fsspec = pytest.importorskip("fsspec", reason="remote stores need fsspec")

from verl_rollout_dump import RolloutDumpCallback  # noqa: E402
from verl_rollout_dump.storage import Store  # noqa: E402
from verl_rollout_dump.storage.lineage import lineage  # noqa: E402

LEFT = ["1.jsonl", "2.jsonl", "3.jsonl", "4.jsonl", "5.jsonl", "6.jsonl"]


def run(directory, batch, steps, prompt, leftovers, compression=None):
    node = {
        "path": {"dir": str(directory), "leftovers": leftovers},
        "writer": {"compression": compression, "retry_seconds": 0},
    }
    with RolloutDumpCallback.from_config(node) as callback:
        for step in steps:
            callback.on_rollout_end(batch(n=1, step=step, prompts=[prompt]))


def prompts(folder):
    return {path.name: json.loads(path.read_text())["input"] for path in sorted(folder.glob("*.jsonl"))}


def test_keep_leaves_them_in_place(tmp_path, batch):
    run(tmp_path, batch, range(1, 7), "first", "keep")
    run(tmp_path, batch, range(1, 4), "second", "keep")
    assert list(prompts(tmp_path)) == LEFT


def test_supersede_moves_them_at_the_end_of_the_attempt(tmp_path, batch):
    run(tmp_path, batch, range(1, 7), "first", "keep")
    run(tmp_path, batch, range(1, 4), "second", "supersede")
    assert prompts(tmp_path) == {f"{step}.jsonl": "second" for step in (1, 2, 3)}
    assert prompts(tmp_path / "superseded/1") == dict.fromkeys(LEFT, "first")
    assert sorted(lineage(tmp_path)) == [1, 2, 3]


def test_steps_before_a_resume_are_no_leftovers(tmp_path, batch):
    run(tmp_path, batch, range(1, 7), "first", "keep", "gzip")
    run(tmp_path, batch, range(4, 6), "resumed", "supersede")
    names = sorted(path.name for path in tmp_path.glob("*.jsonl*"))
    assert names == ["1.jsonl.gz", "2.jsonl.gz", "3.jsonl.gz", "4.jsonl", "5.jsonl"]
    kept = sorted(path.name for path in (tmp_path / "superseded/1").iterdir())
    assert kept == ["4.jsonl.gz", "5.jsonl.gz", "6.jsonl.gz"]


def test_an_attempt_without_a_step_moves_nothing(tmp_path, batch):
    run(tmp_path, batch, range(1, 7), "first", "keep")
    run(tmp_path, batch, (), "", "supersede")
    assert list(prompts(tmp_path)) == LEFT


def test_a_store_too(batch, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = fsspec.filesystem("memory")
    files.store.clear()
    run("memory://leftovers/a", batch, range(1, 4), "first", "keep")
    run("memory://leftovers/a", batch, (1,), "second", "supersede")
    store = Store("memory://leftovers/a")
    assert [store.size(f"{step}.jsonl") is None for step in (1, 2, 3)] == [False, True, True]
    assert [store.size(f"superseded/1/{step}.jsonl") is None for step in (1, 2, 3)] == [False, False, False]
    files.store.clear()
