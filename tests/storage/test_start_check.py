"""What keeps a dump from starting is found before the training starts, and leaves the dump free to start."""

from uuid import uuid4

import pytest

from verl_rollout_dump import DumpError, RolloutDumpCallback, load_config
from verl_rollout_dump.storage.remote.store import Store
from verl_rollout_dump.storage.start_check import check_directories


def config_of(directory, **writer):
    return load_config({"path": {"dir": str(directory)}, "writer": writer})


def test_a_directory_that_can_be_used(tmp_path, batch):
    config = config_of(tmp_path / "a/b")
    check_directories(config)
    check_directories(config)
    with RolloutDumpCallback(config) as dump:
        dump.on_rollout_end(batch(step=1))
    assert (tmp_path / "a/b/1.jsonl").is_file()


def test_a_directory_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DumpError, match=r"cannot write rollouts to .*/file/dump: File exists\. Make the"):
        check_directories(config_of(tmp_path / "file/dump"))


def test_a_second_live_run(tmp_path):
    config = config_of(tmp_path)
    said = r"another run is writing to .* \(host .*, pid \d+, since "
    with RolloutDumpCallback(config), pytest.raises(DumpError, match=said):
        check_directories(config)
    check_directories(config)


def test_every_shard_of_ray_writers_is_checked(tmp_path):
    blocked = tmp_path / "shards"
    blocked.mkdir()
    (blocked / "0002-of-0003").write_text("a file")
    with pytest.raises(DumpError, match="cannot write rollouts to "):
        check_directories(config_of(tmp_path, mode="ray", shards=3))
    check_directories(config_of(tmp_path, shards=3, shard=0))


def test_a_store(tmp_path):
    url = f"memory://{uuid4().hex}"
    config = config_of(url, spool_dir=str(tmp_path / "spool"))
    check_directories(config)
    with RolloutDumpCallback(config):
        with pytest.raises(DumpError, match=r"another run is writing to "):
            check_directories(config)
        other_spool = config_of(url, spool_dir=str(tmp_path / "other"))
        with pytest.raises(DumpError, match=rf"another run is writing to {url} \(host "):
            check_directories(other_spool)
    assert Store(url).read("run.lease") is None
    check_directories(config)
