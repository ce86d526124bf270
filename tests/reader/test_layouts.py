"""Where the files of a dump are: folders of steps, names by a template, shards."""

import json
from collections import Counter

import pytest

from verl_rollout_dump import RolloutBatch, RolloutDumpCallback
from verl_rollout_dump.analysis.check import check_dump
from verl_rollout_dump.analysis.diff import mean_scores
from verl_rollout_dump.analysis.repair import repair_dump
from verl_rollout_dump.analysis.selection import Selection
from verl_rollout_dump.analysis.stats import step_stats
from verl_rollout_dump.reader import follow, open_dump
from verl_rollout_dump.reader.discovery import find_dumps
from verl_rollout_dump.reader.files import dump_files
from verl_rollout_dump.reader.index_cache import IndexCache


@pytest.fixture
def prime_rl(tmp_path):
    """Two steps of two rollouts in folders, as prime-rl writes them, with an evaluation beside step 2."""
    for step in (1, 2):
        folder = tmp_path / "dumps" / f"step_{step}"
        folder.mkdir(parents=True)
        records = [{"prompt": "p", "completion": f"c{i}", "reward": i / 2} for i in range(2)]
        (folder / "rollouts.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "eval_rollouts.jsonl").write_text('{"prompt": "e", "completion": "e", "reward": 9}\n')
    return tmp_path / "dumps"


def test_folders_of_steps_are_one_dump(prime_rl, run):
    dump = open_dump(prime_rl)
    assert (dump.steps, len(dump)) == ([1, 2], 4)
    assert (dump.record(2, 1)["completion"], dump.scores(2).tolist()) == ("c1", [0.0, 0.5])
    assert find_dumps(prime_rl.parent) == [prime_rl]
    (row,) = json.loads(run("ls", prime_rl.parent, "--json").stdout)
    assert (row["steps"], row["records"], row["score"]) == ("1-2", 4, 0.25)
    assert next(follow(prime_rl)).step == 1


@pytest.mark.parametrize("path", ["step_2", "step_2/rollouts.jsonl"])
def test_a_folder_or_file_of_a_step_knows_its_step(prime_rl, path):
    assert open_dump(prime_rl / path).steps == [2]


def test_training_rollouts_are_told_from_others_by_name(prime_rl):
    (prime_rl / "step_2" / "train_rollouts.jsonl").write_text('{"reward": 1}\n')
    assert [file.path.name for file in dump_files(prime_rl)] == ["rollouts.jsonl", "train_rollouts.jsonl"]


def test_a_template_is_read_as_it_was_written(tmp_path):
    config = {"path": {"dir": str(tmp_path), "filename": "step{step}_qwen2.jsonl"}}
    with RolloutDumpCallback.from_config(config) as callback:
        for step in (3, 4):
            callback.on_rollout_end(RolloutBatch(step=step, prompts=["p"], responses=["r"], scores=[1.0]))
    dump = open_dump(tmp_path)
    assert dump.steps == [3, 4]
    assert [row.step for row in dump.rows()] == [3, 4]
    assert check_dump(dump) == []


def test_repair_keeps_the_files_of_all_folders(prime_rl, tmp_path):
    report = repair_dump(open_dump(prime_rl), tmp_path / "clean")
    assert (report.files, report.records) == (2, 4)
    assert list(open_dump(tmp_path / "clean")) == list(open_dump(prime_rl))


def test_repair_keeps_both_files_of_a_step(write_step, tmp_path):
    import gzip

    write_step("7.jsonl", [{"output": "plain"}])
    dump = write_step("7.jsonl.gz", gzip.compress(b'{"output": "packed"}\n'))
    repair_dump(open_dump(dump), tmp_path / "clean")
    clean = open_dump(tmp_path / "clean")
    assert (clean.steps, sorted(record["output"] for record in clean)) == ([7], ["packed", "plain"])


def test_repair_keeps_the_shards_of_all_writers(tmp_path):
    for shard in range(2):
        config = {"path": {"dir": str(tmp_path / "dump")}, "writer": {"shard": shard, "shards": 2}}
        with RolloutDumpCallback.from_config(config) as callback:
            callback.on_rollout_end(RolloutBatch(step=1, prompts=["p"], responses=[f"r{shard}"], scores=[1.0]))
    repair_dump(open_dump(tmp_path / "dump"), tmp_path / "clean")
    assert sorted(record["output"] for record in open_dump(tmp_path / "clean")) == ["r0", "r1"]


@pytest.fixture
def many(write_step):
    """50 files of one record; the score of step n is n % 7."""
    for step in range(1, 51):
        dump = write_step(f"{step}.jsonl", [{"input": "p", "output": "o", "score": step % 7}])
    return dump


def test_each_file_is_looked_at_a_fixed_number_of_times(many, monkeypatch):
    looked_at = Counter()
    key = IndexCache.key
    monkeypatch.setattr(IndexCache, "key", lambda cache, path: looked_at.update([path.name]) or key(cache, path))
    dump = open_dump(many)
    dump.make_index()
    assert [row.step for row in Selection(worst=3).rows(dump)] == [49, 42, 35]
    assert mean_scores(dump) == {step: step % 7 for step in range(1, 51)}
    assert (len(looked_at), max(looked_at.values())) == (50, 2)
    looked_at.clear()
    assert open_dump(many).record(40, 0)["score"] == 5
    assert looked_at == {"40.jsonl": 1}


def test_columns_of_all_records(write_step):
    write_step("2.jsonl", [{"score": 1}, {"score": 2}])
    dump = open_dump(write_step("rollouts.jsonl", [{"step": 2, "score": 3}, {"step": 1}]))
    columns = {name: column.tolist() for name, column in dump.columns("step", "index").items()}
    assert columns == {"step": [2, 2, 2, 1], "index": [0, 1, 2, 0]}
    assert mean_scores(dump) == {1: None, 2: 2.0}


def test_a_file_that_vanishes_is_a_problem_of_its_own(many):
    dump = open_dump(many)
    (many / "3.jsonl").unlink()
    dump.make_index()
    assert (len(dump), [problem.path.name for problem in dump.problems]) == (49, ["3.jsonl"])
    assert sum(stats.records for stats in step_stats(dump)) == 49
    assert len(list(dump)) == 49
