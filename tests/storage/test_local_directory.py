"""What happens to files: attempts, what is there already, leftovers, locks, faults, modes."""

import json
import os
import stat
import subprocess
import sys
import textwrap

import pytest

from verl_rollout_dump import DumpError, RolloutDumpCallback
from verl_rollout_dump.storage.atomic_files import DurableSync, Sync, write_all, write_file
from verl_rollout_dump.storage.compression import Plain


def run(directory, batch, steps, **path):
    config = {"path": {"dir": str(directory), **path}}
    with RolloutDumpCallback.from_config(config) as callback:
        for step, prompt in steps.items():
            callback.on_rollout_end(batch(n=1, step=step, prompts=[prompt]))
    return callback


def prompt_in(path):
    return json.loads(path.read_text())["input"]


def record_of(directory):
    return json.loads((directory / "run.json").read_bytes())


def test_run_json_says_what_wrote_the_dump(tmp_path, batch):
    run(tmp_path, batch, {1: "a", 2: "b", 5: "c"})
    record = record_of(tmp_path)
    assert record["format"] == 1 and record["state"] == "complete" and record["split"] == "train"
    assert record["rollout_dump"]["path"]["dir"] == str(tmp_path)
    assert record["rollout_dump"]["serialization"]["strategy"] == "early_convert"
    assert {"verl_rollout_dump", "python", "numpy", "orjson", "omegaconf"} <= set(record["versions"])
    (attempt,) = record["attempts"]
    assert (attempt["attempt"], attempt["state"], attempt["steps"], attempt["pid"]) == (
        1,
        "complete",
        "1-2,5",
        os.getpid(),
    )
    assert attempt["started"] <= attempt["ended"]
    assert record["report"]["records_written"] == 3


def test_a_later_attempt_supersedes(tmp_path, batch, caplog):
    run(tmp_path, batch, {1: "a1", 2: "a2", 3: "a3"})
    run(tmp_path, batch, {2: "b2", 3: "b3"})
    run(tmp_path, batch, {3: "c3"})
    assert {p.name: prompt_in(p) for p in tmp_path.glob("*.jsonl")} == {
        "1.jsonl": "a1",
        "2.jsonl": "b2",
        "3.jsonl": "c3",
    }
    old = {str(p.relative_to(tmp_path)): prompt_in(p) for p in tmp_path.glob("superseded/*/*")}
    assert old == {"superseded/1/2.jsonl": "a2", "superseded/1/3.jsonl": "a3", "superseded/2/3.jsonl": "b3"}
    attempts = record_of(tmp_path)["attempts"]
    assert [(a["attempt"], a["state"], a["steps"]) for a in attempts] == [
        (1, "complete", "1-3"),
        (2, "complete", "2-3"),
        (3, "complete", "3"),
    ]
    assert "superseded/2/3.jsonl" in caplog.text


def test_a_file_that_another_program_wrote_is_kept(tmp_path, batch):
    (tmp_path / "1.jsonl").write_text('{"input": "stock"}\n')
    run(tmp_path, batch, {1: "ours"})
    assert prompt_in(tmp_path / "superseded/0/1.jsonl") == "stock"


def test_existing_error_leaves_the_older_file(tmp_path, batch):
    run(tmp_path, batch, {1: "old"})
    callback = run(tmp_path, batch, {1: "new", 2: "two"}, existing="error")
    assert prompt_in(tmp_path / "1.jsonl") == "old" and prompt_in(tmp_path / "2.jsonl") == "two"
    assert callback.report.failures == {"write: FileExistsError": 1}
    assert not (tmp_path / "superseded").exists()


def test_existing_overwrite_does_what_it_says(tmp_path, batch):
    run(tmp_path, batch, {1: "old"})
    run(tmp_path, batch, {1: "new"}, existing="overwrite")
    assert prompt_in(tmp_path / "1.jsonl") == "new"
    assert not (tmp_path / "superseded").exists()


def test_a_killed_attempt_leaves_no_torn_file_and_the_next_one_starts(tmp_path, batch):
    script = f"""
        import os, signal
        from verl_rollout_dump import RolloutBatch, RolloutDumpCallback
        callback = RolloutDumpCallback.from_config({{"path": {{"dir": {str(tmp_path)!r}}}}})
        callback.on_rollout_end(RolloutBatch(step=1, prompts=["p"], responses=["r"], scores=[1]))
        callback.flush()
        open({str(tmp_path / "2.jsonl.tmp")!r}, "w").write('{{"input": "to')
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], timeout=60)
    assert done.returncode == -9
    assert record_of(tmp_path)["state"] == "running"
    run(tmp_path, batch, {2: "whole"})
    assert [(a["state"], a["steps"]) for a in record_of(tmp_path)["attempts"]] == [("failed", "1"), ("complete", "2")]
    assert prompt_in(tmp_path / "2.jsonl") == "whole"
    assert (tmp_path / "superseded/1/2.jsonl.tmp").read_text() == '{"input": "to'
    assert not list(tmp_path.glob("*.tmp"))


def test_a_second_live_run_is_refused_with_the_remedy(tmp_path, batch):
    config = {"path": {"dir": str(tmp_path)}}
    first = RolloutDumpCallback.from_config(config)
    with pytest.raises(DumpError, match=r"another run is writing to .*own: set trainer\.rollout_data_dir"):
        RolloutDumpCallback.from_config(config)
    first.close()
    run(tmp_path, batch, {1: "free again"})


@pytest.mark.parametrize("make", [lambda p: p.write_text("a file"), lambda p: p.symlink_to("/proc/nowhere")])
def test_a_directory_that_cannot_be_made_fails_at_start(tmp_path, make):
    make(tmp_path / "x")
    with pytest.raises(DumpError, match=r"cannot write rollouts to .*trainer.rollout_data_dir=DIR"):
        RolloutDumpCallback.from_config({"path": {"dir": str(tmp_path / "x/dump")}})


def test_an_unreadable_run_json_is_kept_aside(tmp_path, batch):
    (tmp_path / "run.json").write_text("{")
    run(tmp_path, batch, {1: "a"})
    assert record_of(tmp_path)["attempts"][0]["attempt"] == 1
    (kept,) = tmp_path.glob("run.json.unreadable-*")
    assert kept.read_text() == "{"


def test_mode_bits_follow_the_umask(tmp_path, batch):
    old = os.umask(0o027)
    try:
        run(tmp_path, batch, {1: "a"})
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "1.jsonl").stat().st_mode) == 0o640


def test_only_steps_end_in_jsonl(tmp_path, batch):
    # verl's scripts/rollout_viewer.py takes int(stem) of every *.jsonl of the folder
    run(tmp_path, batch, {2: "a", 10: "b"})
    assert sorted(int(path.stem) for path in tmp_path.glob("*.jsonl")) == [2, 10]


def test_a_device_without_room_leaves_no_file(tmp_path, monkeypatch):
    def full(descriptor, pieces):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "writev", full)
    with pytest.raises(OSError, match="No space"):
        write_file(tmp_path / "1.jsonl", [[b"a\n"]], Plain(), Sync())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", ["fsync", "close", "replace"])
def test_faults_after_writing_leave_no_file(tmp_path, monkeypatch, call):
    real = getattr(os, call)

    def fails(*args):
        if call == "close":
            real(*args)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, call, fails)
    with pytest.raises(OSError, match="Input/output"):
        write_file(tmp_path / "1.jsonl", [[b"a\n"]], Plain(), DurableSync())
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_short_writes_are_gone_on_with(tmp_path, monkeypatch):
    real_write, real_writev = os.write, os.writev
    monkeypatch.setattr(os, "writev", lambda fd, pieces: real_writev(fd, [b"".join(pieces)[:3]]))
    monkeypatch.setattr(os, "write", lambda fd, data: real_write(fd, bytes(data[:2])))
    descriptor = os.open(tmp_path / "x", os.O_CREAT | os.O_WRONLY)
    assert write_all(descriptor, [b"hello ", b"", b"world\n"]) == 12
    os.close(descriptor)
    assert (tmp_path / "x").read_bytes() == b"hello world\n"


def test_more_pieces_than_one_call_takes(tmp_path):
    pieces = [b"%d\n" % i for i in range(5000)]
    assert write_file(tmp_path / "x", [pieces], Plain(), DurableSync()) == len(b"".join(pieces))
    assert (tmp_path / "x").read_bytes() == b"".join(pieces)
