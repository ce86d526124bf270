"""Ray actors as writers: four of them on a local Ray."""

import json
import os
import shutil
import sys
import tempfile

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="writer.mode=ray needs Ray")

from verl_rollout_dump import DumpError, RolloutBatch, RolloutDumpCallback  # noqa: E402
from verl_rollout_dump.batch.source import part_bounds  # noqa: E402
from verl_rollout_dump.storage.lineage import lineage_parts, missing_parts  # noqa: E402

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("ray_writers")]
WRITERS = 4


@pytest.fixture(scope="module")
def cluster():
    short = tempfile.mkdtemp(prefix="r", dir="/tmp")  # Ray's sockets must not have long paths
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # actors cannot import a test
    ray.init(num_cpus=2, include_dashboard=False, _temp_dir=short, object_store_memory=100_000_000, log_to_driver=False)
    yield ray
    ray.shutdown()
    shutil.rmtree(short, ignore_errors=True)


@pytest.fixture
def open_writers(cluster, tmp_path):
    opened = []

    def make(directory=tmp_path / "dump", **node):
        writer = {"mode": "ray", "shards": WRITERS, "retry_seconds": 0, **node.pop("writer", {})}
        config = {"path": {"dir": str(directory)}, "writer": writer, **node}
        opened.append(RolloutDumpCallback.from_config(config))
        return opened[-1]

    yield make
    for callback in opened:
        callback.close()


class Numbers:
    """A tokenizer whose tokens are numbers."""

    def batch_decode(self, rows, skip_special_tokens=True):
        return [" ".join(map(str, map(int, row))) for row in rows]

    def decode(self, row, skip_special_tokens=True):
        return self.batch_decode([row])[0]


class Elsewhere:
    """Rollouts that are made where they are read."""

    padding_rows = 0

    def __init__(self, step, uids):
        self.step, self.uids = step, uids

    def take(self, rows):
        return Elsewhere(self.step, [self.uids[row] for row in rows])

    def read(self, config):
        texts = [f"row {uid} read in {os.getpid()}" for uid in self.uids]
        return RolloutBatch(self.step, texts, texts, [1.0] * len(texts), uids=self.uids)


def records(directory):
    return {
        step: [json.loads(line) for path in paths for line in path.read_text().splitlines()]
        for step, paths in lineage_parts(directory).items()
    }


def test_four_writers_write_each_a_part(open_writers, tmp_path, batch):
    callback = open_writers()
    ids = np.arange(20).reshape(10, 2)
    callback.tokenizer = Numbers()
    callback.on_rollout_end(batch(n=10, step=1, prompts=ids, responses=ids, extras={"acc": list(range(10)), "kl": 0.5}))
    callback.on_rollouts_at(Elsewhere(2, list(map(str, range(8)))))
    callback.flush()
    found = records(tmp_path / "dump")
    assert [record["input"] for record in found[1]] == [f"{2 * row} {2 * row + 1}" for row in range(10)]
    assert [(record["acc"], record["kl"]) for record in found[1]] == [(row, 0.5) for row in range(10)]
    assert len({record["input"].split()[-1] for record in found[2]}) == WRITERS  # pids: the driver read nothing
    assert sorted(int(record["input"].split()[1]) for record in found[2]) == list(range(8))
    report = callback.report
    assert (report.steps_written, report.records_written, report.steps_failed) == (2, 18, [])
    callback.close()
    assert callback.report.records_written == 18
    states = [json.loads(path.read_bytes())["state"] for path in (tmp_path / "dump").glob("shards/*/run.json")]
    assert states == ["complete"] * WRITERS


def test_a_killed_actor_loses_nothing_that_was_flushed_and_comes_back(open_writers, tmp_path, batch, caplog):
    callback = open_writers()
    callback.on_rollout_end(batch(n=8, step=1))
    callback.flush()
    ray.kill(callback._started._actors[2], no_restart=False)
    for step in range(2, 6):
        callback.on_rollout_end(batch(n=8, step=step))
    callback.close()
    found = records(tmp_path / "dump")
    assert len(found[1]) == 8 and len(found[5]) == 8
    assert sorted(callback.report.steps_failed) == sorted(missing_parts(tmp_path / "dump"))
    attempts = json.loads((tmp_path / "dump/shards/0002-of-0004/run.json").read_bytes())["attempts"]
    assert [attempt["state"] for attempt in attempts] == ["failed", "complete"]


def test_under_raise_an_actors_fault_surfaces_in_its_step(open_writers, tmp_path, batch):
    callback = open_writers(on_error="raise")
    callback.on_rollout_end(batch(n=8, step=1))
    folder = tmp_path / "dump/shards/0001-of-0004"
    folder.rename(tmp_path / "gone")
    folder.write_text("a file in its place")
    with pytest.raises(DumpError, match=r"step 2 is not dumped .*1 of 4 actors.*FileExistsError"):
        callback.on_rollout_end(batch(n=8, step=2))
    folder.unlink()
    (tmp_path / "gone").rename(folder)
    callback.on_rollout_end(batch(n=8, step=3))
    assert missing_parts(tmp_path / "dump") == {2: 1}


def test_a_second_run_is_refused_and_leaves_no_actor(open_writers, tmp_path):
    open_writers()
    with pytest.raises(DumpError, match=r"a writing actor could not start: .*another run is writing to"):
        open_writers()


def test_ray_must_be_there(tmp_path, run_script):
    done = run_script("open_dump(writer={'mode': 'ray'})")
    assert "rollout_dump.writer.mode=ray needs a running Ray: ray.init() first, or mode=background" in done.err


def test_parts_of_a_batch(batch):
    given = batch(
        n=5,
        extras={"list": list(range(5)), "array": np.arange(5), "text": "abcde", "short": [1, 2], "scalar": 3},
        response_mask=np.ones((5, 3)),
    )
    parts = [given.take(range(first, last)) for first, last in part_bounds(5, 3)]
    assert [len(part) for part in parts] == [1, 2, 2]
    assert [list(part.extras["list"]) for part in parts] == [[0], [1, 2], [3, 4]]
    assert [part.extras["array"].tolist() for part in parts] == [[0], [1, 2], [3, 4]]
    assert all((part.extras["text"], part.extras["short"], part.extras["scalar"]) == ("abcde", [], 3) for part in parts)
    assert [part.response_mask.shape for part in parts] == [(1, 3), (2, 3), (2, 3)]
