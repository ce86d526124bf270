"""Every writer mode gives the same records and the same report."""

import collections
import json
import shutil
import sys
import tempfile

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="writer.mode=ray needs Ray")

from verl_rollout_dump import RolloutBatch, RolloutDumpCallback  # noqa: E402
from verl_rollout_dump.storage.lineage import lineage_parts  # noqa: E402

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("ray_writers")]

WRITERS = {
    "background": {"mode": "background"},
    "inline": {"mode": "inline"},
    "ray": {"mode": "ray", "shards": 4},
}
OUTCOMES = ["trained", "rejected"] * 10
Pair = collections.namedtuple("Pair", "a b")


@pytest.fixture(scope="module")
def cluster():
    short = tempfile.mkdtemp(prefix="r", dir="/tmp")  # Ray's sockets must not have long paths
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # actors cannot import a test
    ray.init(num_cpus=2, include_dashboard=False, _temp_dir=short, object_store_memory=100_000_000, log_to_driver=False)
    yield ray
    ray.shutdown()
    shutil.rmtree(short, ignore_errors=True)


class Source:
    """Rollouts that lie elsewhere."""

    padding_rows = 2

    def __init__(self, step, uids):
        self.step, self.uids = step, uids

    def take(self, rows):
        taken = Source(self.step, [self.uids[row] for row in rows])
        taken.padding_rows = 0
        return taken

    def read(self, config):
        texts = [f"text of {uid}" for uid in self.uids]
        extras = {"row": [int(uid[1:]) for uid in self.uids]}
        return RolloutBatch(
            self.step, texts, texts, [1.0] * len(texts), uids=self.uids, extras=extras, padding_rows=self.padding_rows
        )


def batch(step, n=20, **more):
    texts = [f"{step}.{row}" for row in range(n)]
    columns = {
        "deque": collections.deque(range(n)),
        "range": range(n),
        "pair": Pair(1, 2),
        "numpy": np.arange(n),
        "mixed": [np.int64(row) if row % 2 else object() for row in range(n)],
        "short": [1, 2],
        "text": "same for all",
    }
    return RolloutBatch(
        step,
        texts,
        texts,
        list(range(n)),
        uids=[f"u{row // 2}" for row in range(n)],
        outcomes=OUTCOMES[:n],
        extras=columns,
        **more,
    )


def play(callback):
    for step in range(1, 5):
        callback.on_rollout_end(batch(step, padding_rows=step))
    callback.on_rollout_end(batch(6, n=0))
    callback.on_rollout_end(batch(8, n=8))
    callback.on_validation_end(batch(4, split="validation"))
    callback.on_rollouts_at(Source(9, [f"u{row}" for row in range(11)]))
    callback.on_rollouts_at(Source(10, [f"u{row}" for row in range(11)]))
    callback.on_rollout_end(batch("no step"))


def played(directory, mode, **node):
    config = {"path": {"dir": str(directory)}, "writer": WRITERS[mode], **node}
    with RolloutDumpCallback.from_config(config) as callback:
        play(callback)
    files = {
        step: [json.loads(line) for path in paths for line in path.read_text().splitlines()]
        for step, paths in lineage_parts(directory).items()
    }
    report = callback.report.as_dict()
    report.pop("seconds_blocked")
    return files, report


@pytest.mark.parametrize(
    "node", [{}, {"sampling": {"every_n_steps": 2, "max_records": 5}}, {"serialization": {"strategy": "str_fallback"}}]
)
def test_all_writer_modes_give_the_same(cluster, tmp_path, node):
    files, report = played(tmp_path / "background", "background", **node)
    assert list(files) == ([2, 4, 8, 10] if "sampling" in node else [1, 2, 3, 4, 8, 9, 10])
    assert [len(records) for records in files.values()] == (
        [5, 5, 5, 5] if "sampling" in node else [20, 20, 20, 20, 8, 11, 11]
    )
    if "sampling" not in node:
        assert [record["outcome"] for record in files[1]] == OUTCOMES
    assert report["steps_failed"] == ["'no step'"] and report["records_failed"] == 20
    for mode in ("inline", "ray"):
        other_files, other_report = played(tmp_path / mode, mode, **node)
        assert other_files == files, mode
        assert other_report == report, mode


def test_what_is_not_wanted_is_not_shipped(cluster, tmp_path, monkeypatch):
    config = {"path": {"dir": str(tmp_path)}, "writer": WRITERS["ray"], "sampling": {"every_n_steps": 10}}
    with RolloutDumpCallback.from_config(config) as callback:
        dump = callback._started
        shipped = []
        hand_over = dump._hand_over
        monkeypatch.setattr(dump, "_hand_over", lambda *given: shipped.append(given[1]) or hand_over(*given))
        for step in range(1, 21):
            callback.on_rollout_end(batch(step, n=4))
            callback.on_rollouts_at(Source(step, ["u1"]))
            callback.on_validation_end(batch(step, n=4, split="validation"))
        assert shipped == [10, 10, 20, 20]
