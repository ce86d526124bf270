"""Attempts and resumes: one lineage, whatever was killed and begun again."""

import json
import os
import signal

import numpy as np
import pytest

from verl_rollout_dump import DumpError, RolloutDumpCallback
from verl_rollout_dump.storage.attempts import Attempt, counts, superseded_steps
from verl_rollout_dump.storage.lineage import lineage, lineage_parts, missing_parts, superseded_files


def run(directory, batch, steps, mark, **node):
    config = {**node, "path": {"dir": str(directory), **node.get("path", {})}}
    with RolloutDumpCallback.from_config(config) as callback:
        for step in steps:
            callback.on_rollout_end(batch(n=1, step=step, prompts=[mark]))
    return callback


def marks(files):
    return {step: json.loads(path.read_text())["input"] for step, path in files.items()}


def test_steps_beyond_the_resume_point_are_no_part_of_the_lineage(tmp_path, batch, attempts_of):
    run(tmp_path, batch, range(1, 8), "a")
    run(tmp_path, batch, range(5, 6), "b")  # resumed from the checkpoint of step 4, and killed in step 6
    assert marks(lineage(tmp_path)) == {1: "a", 2: "a", 3: "a", 4: "a", 5: "b"}
    assert superseded_files(tmp_path) == {tmp_path / "6.jsonl", tmp_path / "7.jsonl"}
    assert [(a["first_step"], a["steps"], a["superseded"]) for a in attempts_of(tmp_path)] == [
        (1, "1-7", "5-7"),
        (5, "5", ""),
    ]
    run(tmp_path, batch, range(6, 8), "c")
    assert marks(lineage(tmp_path)) == {1: "a", 2: "a", 3: "a", 4: "a", 5: "b", 6: "c", 7: "c"}
    assert superseded_files(tmp_path) == set()


def test_an_attempt_without_a_step_takes_the_place_of_nothing(tmp_path, batch):
    run(tmp_path, batch, range(1, 4), "a")
    run(tmp_path, batch, [], "b")
    assert marks(lineage(tmp_path)) == {1: "a", 2: "a", 3: "a"}


def test_files_of_others_count_until_they_are_replaced(tmp_path, batch):
    for step in (1, 2, 3):
        (tmp_path / f"{step}.jsonl").write_text('{"input": "stock"}\n')
    assert marks(lineage(tmp_path)) == {1: "stock", 2: "stock", 3: "stock"}  # no run.json at all
    run(tmp_path, batch, [2], "a")
    assert marks(lineage(tmp_path)) == {1: "stock", 2: "a"}
    assert superseded_files(tmp_path) == {tmp_path / "3.jsonl"}


def test_a_change_of_compression_leaves_one_file_of_a_step(tmp_path, batch):
    run(tmp_path, batch, [1, 2], "a", writer={"compression": "gzip"})
    run(tmp_path, batch, [2], "b")
    assert sorted(path.name for path in tmp_path.glob("*.jsonl*")) == ["1.jsonl.gz", "2.jsonl"]
    assert (tmp_path / "superseded/1/2.jsonl.gz").exists()
    assert {step: path.name for step, path in lineage(tmp_path).items()} == {1: "1.jsonl.gz", 2: "2.jsonl"}


@pytest.mark.parametrize("template", ["{step}.jsonl", "v2_step{step:06d}.jsonl", "rollouts-{step}-r3.jsonl"])
def test_any_template_of_names(tmp_path, batch, template):
    run(tmp_path, batch, [9, 10], "a", path={"filename": template})
    run(tmp_path, batch, [10], "b", path={"filename": template})
    assert marks(lineage(tmp_path)) == {9: "a", 10: "b"}


@pytest.mark.parametrize("existing", ["error", "overwrite"])
def test_existing_does_what_it_says_whatever_the_compression(tmp_path, batch, existing):
    run(tmp_path, batch, [1], "a", writer={"compression": "gzip"})
    callback = run(tmp_path, batch, [1, 2], "b", path={"existing": existing})
    names = sorted(path.name for path in tmp_path.glob("*.jsonl*"))
    assert not (tmp_path / "superseded").exists()
    if existing == "error":
        assert names == ["1.jsonl.gz", "2.jsonl"] and callback.report.steps_failed == [1]
    else:
        assert names == ["1.jsonl", "2.jsonl"] and callback.report.steps_failed == []


def test_a_new_file_that_cannot_be_written_costs_nothing(tmp_path, batch, monkeypatch):
    run(tmp_path, batch, [1], "a")
    real = os.writev

    def refuse_steps(descriptor, pieces):
        if any(b'"input"' in piece for piece in pieces):
            raise PermissionError("refused")
        return real(descriptor, pieces)

    monkeypatch.setattr(os, "writev", refuse_steps)
    callback = run(tmp_path, batch, [1], "b")
    monkeypatch.undo()
    assert callback.report.steps_failed == [1]
    assert marks(lineage(tmp_path)) == {1: "a"}


def test_a_file_of_an_attempt_that_was_killed_before_it_could_say_so(tmp_path, batch, run_script, attempts_of):
    run(tmp_path / "dump", batch, range(1, 5), "a")
    killed = run_script(
        """
        callback = open_dump()
        callback._started._splits["train"].directory.save_record = lambda report: os.kill(os.getpid(), signal.SIGKILL)
        callback.on_rollout_end(batch(3, "b"))
        time.sleep(30)
        """
    )
    assert killed.returncode == -signal.SIGKILL
    assert attempts_of(tmp_path / "dump")[1]["steps"] == ""
    run(tmp_path / "dump", batch, [4], "c")
    assert [a["steps"] for a in attempts_of(tmp_path / "dump")] == ["1-4", "3", "4"]
    assert marks(lineage(tmp_path / "dump")) == {1: "a", 2: "a", 3: "b", 4: "c"}


def test_links_in_the_directory_are_not_followed_out_of_it(tmp_path, batch, caplog):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    dump = tmp_path / "dump"
    dump.mkdir()
    for name in ("1.jsonl", "1.jsonl.tmp", "run.json", "run.json.tmp"):
        (dump / name).symlink_to(outside / "precious")
    run(dump, batch, [1], "a")
    assert (outside / "precious").read_text() == "precious"
    assert marks(lineage(dump)) == {1: "a"}
    (dump / "superseded").rename(tmp_path / "moved")
    (dump / "superseded").symlink_to(outside)
    callback = run(dump, batch, [1], "b")
    assert [path.name for path in outside.iterdir()] == ["precious"]
    assert callback.report.steps_failed == [1] and "is a symbolic link; it is not followed" in caplog.text
    (dump / "run.lock").unlink()
    (dump / "run.lock").symlink_to(outside / "precious")
    with pytest.raises(DumpError, match="symbolic links"):
        run(dump, batch, [2], "c")


def test_nothing_is_writable_for_everybody_under_any_umask(tmp_path, batch):
    old = os.umask(0)
    try:
        run(tmp_path / "a/dump", batch, [1, 2], "a")
        run(tmp_path / "a/dump", batch, [1], "b")
    finally:
        os.umask(old)
    found = [tmp_path / "a", *(tmp_path / "a").rglob("*")]
    assert len(found) > 6
    assert [path for path in found if path.stat().st_mode & 0o002] == []


@pytest.mark.parametrize("step", ["../1", "7", -1, 1.5, None])
def test_a_step_that_is_no_number_costs_that_batch_alone(tmp_path, batch, step):
    callback = run(tmp_path / "dump", batch, [step, 2], "a")
    assert len(callback.report.steps_failed) == 1 and callback.report.steps_written == 1
    assert [path.name for path in tmp_path.iterdir()] == ["dump"]


def test_a_numpy_step_is_a_number(tmp_path, batch, attempts_of):
    run(tmp_path, batch, [np.int64(3)], "a")
    assert (attempts_of(tmp_path)[0]["first_step"], list(lineage(tmp_path))) == (3, [3])


def test_two_ways_to_the_same_answer():
    attempts = [
        Attempt(1, first_step=1, steps={1, 2, 3, 4, 5}),
        Attempt(2, first_step=4),
        Attempt(3, first_step=3, steps={3, 4}),
        Attempt(4, first_step=4, steps={4, 9}),
    ]
    expected = {1: {3, 4, 5}, 2: set(), 3: {4}, 4: set()}
    assert superseded_steps(attempts) == expected
    for attempt in attempts:
        lost = {step for step in attempt.steps if not counts(attempts, step, attempt.attempt)}
        assert lost == expected[attempt.attempt]


def test_many_writers_share_a_dump(tmp_path, batch):
    dumps = [
        RolloutDumpCallback.from_config({"path": {"dir": str(tmp_path)}, "writer": {"shards": 4, "shard": shard}})
        for shard in range(4)
    ]
    for step in (1, 2):
        for shard, dump in enumerate(dumps[: 4 if step == 1 else 3]):
            dump.on_rollout_end(batch(n=1, step=step, prompts=[f"{shard}"]))
    for dump in dumps:
        dump.close()
    parts = lineage_parts(tmp_path)
    assert [json.loads(path.read_text())["input"] for path in parts[1]] == ["0", "1", "2", "3"]
    assert missing_parts(tmp_path) == {2: 1}
    assert not list(tmp_path.glob("*.jsonl"))  # verl's viewer takes int(stem) of each
    assert [int(path.stem) for path in sorted((tmp_path / "shards/0003-of-0004").glob("*.jsonl"))] == [1]
    with pytest.raises(ValueError, match=r"several writers \(step 1 has 4 files\)"):
        lineage(tmp_path)


def test_a_resume_with_another_number_of_writers(tmp_path, batch):
    for shards, steps in ((2, (1, 2, 3)), (3, (2,))):
        for shard in range(shards):
            run(tmp_path, batch, steps, f"{shard}/{shards}", writer={"shards": shards, "shard": shard})
    parts = {
        step: [json.loads(path.read_text())["input"] for path in paths]
        for step, paths in lineage_parts(tmp_path).items()
    }
    assert parts == {1: ["0/2", "1/2"], 2: ["0/3", "1/3", "2/3"]}
