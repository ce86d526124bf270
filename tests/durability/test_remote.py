"""Remote stores: the same promises, and nothing lost while the store is away. S3 is a moto server on this machine."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

fsspec = pytest.importorskip("fsspec", reason="remote stores need fsspec")

from verl_rollout_dump import DumpError, RolloutDumpCallback  # noqa: E402
from verl_rollout_dump.storage import Store, StoreError, lease, upload_spool  # noqa: E402
from verl_rollout_dump.storage.remote import remote_directory, upload  # noqa: E402
from verl_rollout_dump.storage.remote.spool import spool_folder  # noqa: E402

BUCKET = "rollouts"


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    """Leases and pauses of a moment, and a spool of the test's own."""
    for name, seconds in (("RENEWED", 0.1), ("EXPIRES", 0.5), ("SETTLES", 0.01)):
        monkeypatch.setattr(lease, name, seconds)
    monkeypatch.setattr(upload, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(upload, "LONGEST_OUTAGE_PAUSE", 0.05)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def memory():
    files = fsspec.filesystem("memory")
    files.store.clear()
    files.pseudo_dirs[:] = [""]
    yield files
    files.store.clear()


def open_remote(url, **node):
    config = {**node, "path": {"dir": url, **node.get("path", {})}}
    config["writer"] = {"retry_seconds": 0, **node.get("writer", {})}
    return RolloutDumpCallback.from_config(config)


def run(url, batch, steps, mark, **node):
    with open_remote(url, **node) as callback:
        for step in steps:
            callback.on_rollout_end(batch(n=1, step=step, prompts=[mark]))
    return callback


def mark_of(store, name):
    return json.loads(store.read(name))["input"]


def record_of(store):
    return json.loads(store.read("run.json"))


def test_the_files_of_a_store_are_those_of_a_directory(memory, batch):
    run("memory://runs/a", batch, (1, 2, 3), "a")
    run("memory://runs/a", batch, (2,), "b")
    store = Store("memory://runs/a")
    names = sorted(path.removeprefix("/runs/a/") for path in memory.find("/runs/a"))
    assert names == ["1.jsonl", "2.jsonl", "3.jsonl", "run.json", "superseded/1/2.jsonl"]
    assert [mark_of(store, name) for name in names if name != "run.json"] == ["a", "b", "a", "a"]
    record = record_of(store)
    assert [(a["state"], a["steps"], a["superseded"]) for a in record["attempts"]] == [
        ("complete", "1-3", "2-3"),
        ("complete", "2", ""),
    ]
    assert record["report"]["steps_written"] == 1


@pytest.mark.parametrize(("existing", "failed"), [("error", [1]), ("overwrite", [])])
def test_existing_does_what_it_says(memory, batch, existing, failed):
    run("memory://runs/a", batch, (1,), "a")
    callback = run("memory://runs/a", batch, (1,), "b", path={"existing": existing})
    assert callback.report.steps_failed == failed
    assert mark_of(Store("memory://runs/a"), "1.jsonl") == ("a" if failed else "b")
    assert not memory.exists("/runs/a/superseded")


def test_many_writers_and_validation(memory, batch):
    node = {
        "path": {"dir": "memory://runs/a", "validation_dir": "memory://runs/a"},
        "writer": {"shards": 2, "shard": 1},
    }
    with RolloutDumpCallback.from_config(node) as callback:
        callback.on_rollout_end(batch(n=1))
        callback.on_validation_end(batch(n=1))
    assert memory.exists("/runs/a/shards/0001-of-0002/7.jsonl")
    assert memory.exists("/runs/a/validation/shards/0001-of-0002/7.jsonl")


def test_a_second_live_run_is_refused(memory, batch):
    callback = open_remote("memory://runs/a")
    with pytest.raises(DumpError, match=f"another run is writing to .*pid {os.getpid()}"):
        open_remote("memory://runs/a")
    with pytest.raises(DumpError, match=f"another run is writing to .*pid {os.getpid()}"):
        open_remote("memory://runs/a", writer={"spool_dir": os.environ["XDG_CACHE_HOME"] + "/of-another-host"})
    callback.close()
    open_remote("memory://runs/a").close()


def test_what_was_left_here_while_the_run_went_on_elsewhere(memory, batch, monkeypatch, tmp_path, capsys):
    url = "memory://runs/a"
    with open_remote(url) as here:
        here.on_rollout_end(batch(n=1, step=1, prompts=["here"]))
        here.flush()
        monkeypatch.setattr(Store, "upload", lambda *a: (_ for _ in ()).throw(StoreError("away")))
        here.on_rollout_end(batch(n=1, step=2, prompts=["here"]))
    assert here.report.steps_waiting_for_store == 1
    assert "memory://runs/a is unreachable; steps 2 are in" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run(url, batch, (2, 3), "elsewhere", writer={"spool_dir": str(tmp_path / "elsewhere")})
    assert upload_spool(url) == [2]
    store = Store(url)
    assert [mark_of(store, f"{step}.jsonl") for step in (1, 2, 3)] == ["here", "elsewhere", "elsewhere"]
    assert mark_of(store, "superseded/1/2.jsonl") == "here"
    assert [a["steps"] for a in record_of(store)["attempts"]] == ["1-2", "2-3"]


def test_an_upload_whose_answer_was_lost_supersedes_nothing(memory, batch, monkeypatch):
    real = Store.upload

    def lose_the_answer(store, local, name):
        real(store, local, name)
        raise StoreError("the connection broke")

    monkeypatch.setattr(Store, "upload", lose_the_answer)
    callback = open_remote("memory://runs/a")
    callback.on_rollout_end(batch(n=1, step=1))
    callback.flush()
    monkeypatch.setattr(Store, "upload", real)
    callback.close()
    assert callback.report.steps_waiting_for_store == 0
    assert not memory.exists("/runs/a/superseded")
    assert record_of(Store("memory://runs/a"))["attempts"][0]["steps"] == "1"


def test_steps_are_uploaded_when_the_store_is_back_though_no_further_step_comes(memory, batch, monkeypatch):
    def away(self, *args):
        raise StoreError("away")

    monkeypatch.setattr(remote_directory, "TICK_SECONDS", 0.02)
    callback = open_remote("memory://runs/a")
    store = Store("memory://runs/a")
    with monkeypatch.context() as outage:
        for method in ("upload", "write"):
            outage.setattr(Store, method, away)
        for step in (1, 2, 3):
            callback.on_rollout_end(batch(n=1, step=step))
        callback.flush()
        assert callback.report.steps_waiting_for_store == 3
    for _ in range(500):
        if record_of(store)["attempts"][0]["steps"] == "1-3":
            break
        time.sleep(0.02)
    assert [mark_of(store, f"{step}.jsonl") for step in (1, 2, 3)] == ["p0"] * 3
    record = record_of(store)
    assert (record["state"], record["attempts"][0]["steps"]) == ("running", "1-3")
    assert (record["report"]["steps_waiting_for_store"], callback.report.steps_waiting_for_store) == (0, 0)
    callback.close()


class S3Server:
    """A moto server, which can be killed and started again (then it has lost what it held)."""

    def __init__(self, state):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url + "/moto-api/", timeout=5).close()
                return
            except OSError:
                time.sleep(0.1)
        pytest.fail("the moto server did not start")

    def pause(self):
        """Stop it in the middle of whatever it does: it takes connections and answers none."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def s3(tmp_path, monkeypatch):
    pytest.importorskip("s3fs", reason="s3:// needs s3fs")
    pytest.importorskip("moto.server", reason="the S3 server of the test is moto's")
    server = S3Server(tmp_path)
    for name, value in (
        ("AWS_ENDPOINT_URL", server.url),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("NO_PROXY", "127.0.0.1"),
    ):
        monkeypatch.setenv(name, value)
    server.start()
    make_bucket(server)
    yield server
    server.stop()


def make_bucket(server):
    request = urllib.request.Request(f"{server.url}/{BUCKET}", method="PUT")
    urllib.request.urlopen(request, timeout=30).close()


def test_an_s3_server_that_goes_away_and_comes_back(s3, batch, caplog, tmp_path):
    url = f"s3://{BUCKET}/run"
    callback = open_remote(url)
    for step in (1, 2):
        callback.on_rollout_end(batch(n=2, step=step))
    callback.flush()
    assert callback.report.steps_waiting_for_store == 0
    s3.stop()
    for step in (3, 4, 5):
        callback.on_rollout_end(batch(n=2, step=step))
    callback.flush()
    assert (callback.report.steps_written, callback.report.steps_failed) == (5, [])
    assert callback.report.steps_waiting_for_store == 3
    assert "Steps wait in" in caplog.text
    spooled = sorted(path.name for path in spool_folder(url, None).glob("1/*"))
    assert spooled == ["3.jsonl", "4.jsonl", "5.jsonl"]
    s3.start()  # moto keeps objects in memory: what was there before is gone with it
    make_bucket(s3)
    callback.on_rollout_end(batch(n=2, step=6))
    callback.close()
    assert f"{url} is back" in caplog.text
    store = Store(url)
    assert [len(store.read(f"{step}.jsonl").splitlines()) for step in (3, 4, 5, 6)] == [2, 2, 2, 2]
    record = record_of(store)
    assert (record["state"], record["attempts"][0]["steps"]) == ("complete", "1-6")
    assert list(spool_folder(url, None).glob("1/*")) == []


def test_a_store_that_is_away_at_the_end_is_told_and_made_up_for(s3, batch, capsys):
    url = f"s3://{BUCKET}/run"
    callback = open_remote(url)
    s3.stop()
    callback.on_rollout_end(batch(n=2, step=1))
    callback.close()
    assert "steps 1 are in " in capsys.readouterr().err
    with pytest.raises(DumpError, match=f"cannot write rollouts to {url}: .*Check that the store is reachable"):
        open_remote(url)
    s3.start()
    make_bucket(s3)
    run(url, batch, (2,), "next")
    store = Store(url)
    assert len(store.read("1.jsonl").splitlines()) == 2
    assert [mark_of(store, f"{step}.jsonl") for step in (2,)] == ["next"]


def test_a_store_that_does_not_exist_fails_at_start(s3):
    with pytest.raises(DumpError, match="cannot write rollouts to s3://no-such-bucket/run"):
        open_remote("s3://no-such-bucket/run")


def test_an_interpreter_that_ends_without_close_loses_nothing(s3, run_script, tmp_path):
    url = f"s3://{BUCKET}/exit"
    done = run_script(
        """
        callback = open_dump()
        for step in (1, 2, 3):
            callback.on_rollout_end(batch(step))
        """,
        url,
    )
    assert done.returncode == 0, done.err
    store = Store(url)
    in_store = [step for step in (1, 2, 3) if store.size(f"{step}.jsonl")]
    in_spool = [int(path.stem) for path in spool_folder(url, None).glob("1/*.jsonl")]
    assert (in_store, in_spool) == ([1, 2, 3], []), done.err
    assert upload_spool(url) == []
