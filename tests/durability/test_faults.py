"""Disks that fail: full, read-only, gone, and with errors at write, at fsync and at close."""

import errno
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from verl_rollout_dump import DumpError
from verl_rollout_dump.storage.lineage import lineage

MEGABYTE = 1 << 20
EVERY_CALL = "1000000"


def lines(count, letter="x"):
    return [letter * MEGABYTE] * count


def write(callback, batch, step, megabytes=1):
    callback.on_rollout_end(batch(n=megabytes, step=step, prompts=lines(megabytes)))


def test_a_file_system_that_fills_up(tmpfs, open_dump, batch, read_strict, attempts_of, caplog):
    folder = tmpfs("size=16m")
    callback = open_dump(folder)
    for step in range(1, 6):
        write(callback, batch, step, megabytes=5)
    callback.flush()
    assert callback.report.steps_failed == [4, 5]
    assert callback.report.failures == {"write: OSError": 2}
    assert caplog.text.count("No space left on device") == 2  # the log line, and its traceback
    (folder / "1.jsonl").unlink()  # somebody makes room
    write(callback, batch, 6, megabytes=5)
    callback.close()
    assert {step: len(read_strict(path)) for step, path in lineage(folder).items()} == {2: 5, 3: 5, 6: 5}
    (attempt,) = attempts_of(folder)
    assert (attempt["steps"], attempt["failed"], attempt["state"]) == ("1-3,6", "4-5", "complete")
    assert "rollouts of 2 steps are missing in the dump: [4, 5]" in caplog.text
    assert not list(folder.glob("*.tmp"))


def test_room_that_is_made_in_time_costs_no_step(tmpfs, open_dump, batch):
    folder = tmpfs("size=16m")
    ballast = folder / "ballast"
    ballast.write_bytes(b"x" * 12 * MEGABYTE)
    callback = open_dump(folder, writer={"retry_seconds": 20})
    threading.Timer(0.5, ballast.unlink).start()
    write(callback, batch, 1, megabytes=8)
    callback.close()
    assert (callback.report.steps_written, callback.report.steps_failed) == (1, [])


def test_a_failing_disk_is_not_tried_again_while_the_training_waits(tmpfs, open_dump, batch):
    folder = tmpfs("size=1m")
    callback = open_dump(folder, writer={"retry_seconds": 60, "max_pending": 1})
    started = time.monotonic()
    for step in range(1, 5):
        write(callback, batch, step, megabytes=2)
    assert time.monotonic() - started < 20
    assert callback.report.steps_failed[:2] == [1, 2]
    callback._started.end("failed", seconds=5)  # as SIGTERM does it: no more tries


def test_a_full_disk_tells_what_is_missing_on_stderr(tmpfs, run_script):
    folder = tmpfs("size=1m")
    done = run_script(
        """
        callback = open_dump(writer={"retry_seconds": 0})
        callback.on_rollout_end(batch(1))
        callback.flush()
        free = os.statvfs(DUMP)
        with open(DUMP + "/ballast", "wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(b"x" * 4096)
            except OSError:
                pass
        callback.on_rollout_end(batch(2, "x" * 100_000))
        callback.close()
        """,
        folder,
    )
    assert done.returncode == 0, done.err
    assert "could not be written (" in done.err and "Written: steps 1; failed: 2; dropped: none" in done.err


def test_a_file_system_that_becomes_read_only(tmpfs, open_dump, batch, attempts_of, caplog):
    folder = tmpfs("size=4m")
    callback = open_dump(folder, writer={"retry_seconds": 60})
    write(callback, batch, 1)
    callback.flush()
    tmpfs("ro")  # on top: the kernel refuses to remount what has a file open for writing
    write(callback, batch, 2)
    callback.flush()
    assert "Read-only file system" in caplog.text
    subprocess.run(["umount", str(folder)], check=True)
    write(callback, batch, 3)
    callback.close()
    (attempt,) = attempts_of(folder)
    assert (attempt["steps"], attempt["failed"]) == ("1,3", "2")


def test_a_folder_that_is_read_only_fails_at_start(tmpfs, open_dump):
    folder = tmpfs("size=1m")
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    with pytest.raises(DumpError, match=r"Read-only file system\. Make the directory writable for this user"):
        open_dump(folder)


@pytest.mark.parametrize("on_error", ["warn", "raise"])
def test_a_file_that_takes_the_place_of_a_parent_folder(tmp_path, open_dump, batch, capsys, on_error):
    folder = tmp_path / "parent/dump"
    callback = open_dump(folder, on_error=on_error)
    callback.on_rollout_end(batch(step=1))
    callback.flush()
    shutil.rmtree(folder.parent)
    folder.parent.write_text("a file")
    if on_error == "raise":
        with pytest.raises(DumpError, match=r"step 2 is not dumped \(could not write its rollouts\)"):
            callback.on_rollout_end(batch(step=2))
    else:
        callback.on_rollout_end(batch(step=2))
    callback.close()
    assert callback.report.steps_failed == [2]
    assert "failed: 2" in capsys.readouterr().err


@pytest.mark.parametrize("on_error", ["warn", "raise"])
@pytest.mark.parametrize("is_folder_kept", [True, False])
def test_a_folder_that_is_removed_is_made_again_and_what_is_lost_is_said(
    tmp_path, open_dump, batch, caplog, attempts_of, on_error, is_folder_kept
):
    folder = tmp_path / "parent/dump"
    callback = open_dump(folder, on_error=on_error)
    for step in (1, 2):
        callback.on_rollout_end(batch(step=step))
    callback.flush()
    shutil.rmtree(folder.parent)
    if is_folder_kept:  # rm -rf DIR/*
        folder.mkdir(parents=True)
    callback.on_rollout_end(batch(step=3))
    callback.flush()
    with pytest.raises(DumpError, match="another run is writing to"):
        open_dump(folder)  # the new folder is locked as the old one was
    callback.on_rollout_end(batch(step=4))
    callback.close()
    assert sorted(path.name for path in folder.glob("*.jsonl")) == ["3.jsonl", "4.jsonl"]
    assert callback.report.steps_failed == []
    assert [(a["state"], a["steps"]) for a in attempts_of(folder)] == [("complete", "1-4")]
    said = [record.message for record in caplog.records if "It is made again" in record.message]
    assert len(said) == 1 and "steps 1-2 are lost: restore them from a backup" in said[0]


def test_a_folder_that_another_run_took_meanwhile_is_left_to_it(tmp_path, open_dump, batch):
    folder = tmp_path / "dump"
    first = open_dump(folder)
    shutil.rmtree(folder)
    second = open_dump(folder)
    first.on_rollout_end(batch(step=1))
    second.on_rollout_end(batch(step=2))
    first.close()
    second.close()
    assert (first.report.steps_failed, second.report.steps_failed) == ([1], [])
    assert sorted(path.name for path in folder.glob("*.jsonl")) == ["2.jsonl"]


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "No space left on device. Free space on that disk"),
        (errno.EROFS, "Read-only file system. Mount the file system for writing"),
        (errno.EACCES, "Permission denied. Give this user permission to write there"),
    ],
)
def test_a_fault_is_said_with_its_remedy_once_for_all_steps(open_dump, batch, caplog, monkeypatch, number, remedy):
    def fails(descriptor, pieces):
        raise OSError(number, os.strerror(number))

    with open_dump(writer={"retry_seconds": 1}) as callback:
        monkeypatch.setattr(os, "writev", fails)
        for step in (1, 2):
            callback.on_rollout_end(batch(step=step))
            callback.flush()
        monkeypatch.undo()
    assert callback.report.steps_failed == [1, 2]
    messages = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert sum("trying again" in message for message in messages) == (number == errno.ENOSPC)
    said = [record.message for record in caplog.records if "is not dumped" in record.message]
    assert len(said) == 1 and remedy in said[0]


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    """A library that lets system calls on `*.jsonl.tmp` fail."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the shim with")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    source = Path(__file__).with_name("failing_calls.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return str(library)


WRITE_THREE = """
    callback = open_dump(writer={"fsync": True, "retry_seconds": %d}, on_error="%s")
    for step in (1, 2, 3):
        try:
            callback.on_rollout_end(batch(step))
            callback.flush()
        except Exception as error:
            print("raised", step, type(error).__name__)
    callback.close()
    print("failed", callback.report.steps_failed)
"""


@pytest.mark.parametrize("call", ["write", "fsync", "close"])
@pytest.mark.parametrize(("name", "number"), [("EIO", errno.EIO), ("EDQUOT", errno.EDQUOT)])
def test_a_call_that_fails_once_leaves_no_file(run_script, shim, tmp_path, attempts_of, call, name, number):
    done = run_script(
        WRITE_THREE % (0, "warn"),
        LD_PRELOAD=shim,
        FAIL_CALL=call,
        FAIL_FROM="2",
        FAIL_TIMES="1",
        FAIL_ERRNO=str(number),
    )
    assert done.returncode == 0, done.err
    assert done.out == "failed [2]\n"
    assert os.strerror(number) in done.err
    assert sorted(path.name for path in (tmp_path / "dump").glob("*.jsonl*")) == ["1.jsonl", "3.jsonl"]
    assert attempts_of(tmp_path / "dump")[0]["failed"] == "2"


@pytest.mark.parametrize("call", ["write", "fsync", "close"])
def test_a_call_that_fails_for_a_while_is_tried_again(run_script, shim, tmp_path, attempts_of, call):
    environment = {"FAIL_CALL": call, "FAIL_FROM": "2", "FAIL_TIMES": "2", "FAIL_ERRNO": str(errno.EIO)}
    done = run_script(WRITE_THREE % (30, "warn"), LD_PRELOAD=shim, **environment)
    assert done.out == "failed []\n", done.err
    assert attempts_of(tmp_path / "dump")[0]["steps"] == "1-3"
    assert done.err.count("writing step 2 failed ([Errno 5] Input/output error. Check the disk and its cables") == 1
    assert "trying again for up to" in done.err


def test_under_raise_a_fault_surfaces_in_its_own_step(run_script, shim):
    environment = {"FAIL_CALL": "fsync", "FAIL_FROM": "2", "FAIL_TIMES": EVERY_CALL, "FAIL_ERRNO": str(errno.EIO)}
    done = run_script(WRITE_THREE % (0, "raise"), LD_PRELOAD=shim, **environment)
    assert done.out == "raised 2 DumpError\nraised 3 DumpError\nfailed [2, 3]\n", done.err
