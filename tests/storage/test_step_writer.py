"""Several batches of one step in one attempt: one file, with the records of all of them."""

import errno
import json
import os

import pytest

from verl_rollout_dump import RolloutDumpCallback
from verl_rollout_dump.reader import open_dump

fsspec = pytest.importorskip("fsspec", reason="remote stores need fsspec")

from verl_rollout_dump.storage import Store, StoreError  # noqa: E402
from verl_rollout_dump.storage.remote import upload  # noqa: E402

URL = "memory://parts/run"


def opened(directory, **writer):
    return RolloutDumpCallback.from_config({"path": {"dir": str(directory)}, "writer": {"retry_seconds": 0, **writer}})


def hand_over(callback, batch, *prompts):
    for prompt in prompts:
        callback.on_rollout_end(batch(n=1, step=7, prompts=[prompt]))
    callback.flush()


def prompts_in(content):
    return [json.loads(line)["input"] for line in content.splitlines()]


@pytest.mark.parametrize("mode", ["inline", "background"])
@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
def test_readers_see_the_records_of_all_batches(tmp_path, batch, mode, compression):
    if compression == "zstd":
        pytest.importorskip("zstandard")
    with opened(tmp_path, mode=mode, compression=compression) as callback:
        hand_over(callback, batch, "a", "b", "c")
    with open_dump(tmp_path) as dump:
        assert [row.record["input"] for row in dump.rows()] == ["a", "b", "c"]
    assert not (tmp_path / "superseded").exists()
    assert json.loads((tmp_path / "run.json").read_bytes())["attempts"][0]["steps"] == "7"


def test_existing_error_refuses_files_of_others_not_of_this_attempt(tmp_path, batch):
    config = {"path": {"dir": str(tmp_path), "existing": "error"}}
    for prompt, failed in (("a", []), ("later attempt", [7, 7])):
        with RolloutDumpCallback.from_config(config) as callback:
            hand_over(callback, batch, prompt, prompt)
        assert callback.report.steps_failed in (failed, sorted(set(failed)))
    assert prompts_in((tmp_path / "7.jsonl").read_bytes()) == ["a", "a"]


def test_a_later_attempt_supersedes_the_whole_step(tmp_path, batch):
    for prompts in (("a", "b"), ("c",)):
        with opened(tmp_path) as callback:
            hand_over(callback, batch, *prompts)
    assert prompts_in((tmp_path / "7.jsonl").read_bytes()) == ["c"]
    assert prompts_in((tmp_path / "superseded/1/7.jsonl").read_bytes()) == ["a", "b"]


@pytest.mark.parametrize("call", ["writev", "fsync"])
def test_a_batch_that_cannot_be_written_costs_that_batch_alone(tmp_path, batch, monkeypatch, call):
    real = getattr(os, call)
    calls = []

    def fails_for_b(*args):
        if call == "fsync" or b"unwritable" in b"".join(args[1]):
            calls.append(args)
            raise OSError(errno.EROFS, "refused")
        return real(*args)

    with opened(tmp_path, fsync=True) as callback:
        hand_over(callback, batch, "a")
        monkeypatch.setattr(os, call, fails_for_b)
        hand_over(callback, batch, "unwritable")
        monkeypatch.undo()
        hand_over(callback, batch, "c")
    assert calls
    assert prompts_in((tmp_path / "7.jsonl").read_bytes()) == ["a", "c"]


@pytest.fixture
def memory(monkeypatch, tmp_path):
    files = fsspec.filesystem("memory")
    files.store.clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(upload, "FIRST_PAUSE", 0.0)
    yield Store(URL)
    files.store.clear()


def test_a_store_gets_further_batches_at_the_end_of_the_file(memory, batch):
    with opened(URL) as callback:
        hand_over(callback, batch, "a", "b", "b")
    assert prompts_in(memory.read("7.jsonl")) == ["a", "b", "b"]
    assert memory.read("superseded/1/7.jsonl") is None


def test_a_store_that_was_away_gets_all_batches_once(memory, batch, monkeypatch):
    def away(self, *args):
        raise StoreError("away")

    with opened(URL) as callback:
        hand_over(callback, batch, "a")
        with monkeypatch.context() as outage:
            for method in ("upload", "write"):
                outage.setattr(Store, method, away)
            hand_over(callback, batch, "b", "c")
        hand_over(callback, batch, "d")
    assert prompts_in(memory.read("7.jsonl")) == ["a", "b", "c", "d"]


def test_an_answer_that_was_lost_adds_no_batch_twice(memory, batch, monkeypatch):
    real = Store.write
    lost = []

    def answer_lost(self, name, content):
        real(self, name, content)
        if name == "7.jsonl" and not lost:
            lost.append(name)
            raise StoreError("the answer is lost")

    monkeypatch.setattr(Store, "write", answer_lost)
    with opened(URL) as callback:
        hand_over(callback, batch, "a", "b")
    assert lost and prompts_in(memory.read("7.jsonl")) == ["a", "b"]
