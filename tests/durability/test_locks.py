"""One live run per directory: by flock where there is one, else by a lease."""

import errno
import fcntl
import json
import os
import re
import signal
import socket

import pytest

from verl_rollout_dump import DumpError
from verl_rollout_dump.storage import lease
from verl_rollout_dump.storage.directory_lock import LeaseOfFolder
from verl_rollout_dump.storage.lease import Lease, LeaseHeld, Owner, owner_of_process, parse_owner

HOLD = "callback = open_dump()\nprint('open', flush=True)\ntime.sleep(60)"


def test_the_refusal_names_host_pid_and_start(start_script, open_dump):
    process = start_script(HOLD)
    assert process.stdout.readline() == "open\n"
    said = (
        rf"another run is writing to .* \(host {re.escape(socket.gethostname())}, pid {process.pid}, since 20\d\d-.*\)"
    )
    with pytest.raises(DumpError, match=said):
        open_dump()
    process.send_signal(signal.SIGKILL)
    process.wait()
    open_dump().close()  # the lock died with its owner


def test_an_owner_that_has_not_signed_yet(tmp_path, open_dump):
    (tmp_path / "dump").mkdir()
    with (tmp_path / "dump/run.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(DumpError, match="its owner has not signed it yet"):
            open_dump()


@pytest.fixture
def no_flock(monkeypatch):
    """A file system without flock, and leases that run out in a moment."""

    def flock(descriptor, operation):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    for name, seconds in (("RENEWED", 0.05), ("EXPIRES", 0.5), ("SETTLES", 0.01)):
        monkeypatch.setattr(lease, name, seconds)


def other_owner(host="elsewhere", pid=1, token="t"):
    return Owner(host, pid, "2026-01-02T03:04:05.000+00:00", "", token)


def test_without_flock_a_lease_keeps_a_second_run_out(no_flock, open_dump, batch, caplog):
    callback = open_dump()
    assert "is on a file system without flock: its lock is a lease" in caplog.text
    with pytest.raises(DumpError, match=f"pid {os.getpid()}"):
        open_dump()
    callback.on_rollout_end(batch(step=1))
    callback.close()
    assert callback.report.steps_written == 1
    open_dump().close()


def test_a_lease_of_another_host_that_is_not_renewed_is_taken_over(no_flock, tmp_path, open_dump):
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump/run.lease").write_text(json.dumps({**vars(other_owner()), "beat": 3}))
    open_dump().close()
    assert not (tmp_path / "dump/run.lease").exists()


def test_a_lease_of_a_dead_process_of_this_host_is_taken_at_once(no_flock, tmp_path, open_dump, monkeypatch):
    monkeypatch.setattr(lease, "EXPIRES", 1000)
    dead = other_owner(host=socket.gethostname(), pid=2**22 - 3)
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump/run.lease").write_text(json.dumps({**vars(dead), "beat": 3}))
    open_dump().close()


def test_a_lease_that_lives_elsewhere_is_respected(no_flock, tmp_path):
    place = LeaseOfFolder(tmp_path)
    held = Lease(place, other_owner())
    with pytest.raises(LeaseHeld, match="host elsewhere, pid 1, since 2026-01-02"):
        Lease(place, owner_of_process())
    held.release()
    Lease(place, owner_of_process()).release()


def test_a_run_whose_lease_was_taken_writes_no_more(no_flock, tmp_path, open_dump, batch, caplog):
    callback = open_dump()
    lock = callback._started._splits["train"].directory._lock
    LeaseOfFolder(tmp_path / "dump").write(json.dumps({**vars(other_owner()), "beat": 1}).encode())
    lock._lease._thread.join(10)
    callback.on_rollout_end(batch(step=1))
    callback.close()
    assert callback.report.steps_failed == [1]
    assert "was taken over by another run" in caplog.text
    assert parse_owner((tmp_path / "dump/run.lease").read_bytes()).host == "elsewhere"  # theirs is left alone


def test_a_pid_that_was_given_to_another_process_is_not_the_owner():
    owner = owner_of_process()
    assert not owner.is_dead()
    assert Owner(owner.host, owner.pid, owner.started, "1", "t").is_dead()
    assert not other_owner().is_dead()  # of another host nothing is known
