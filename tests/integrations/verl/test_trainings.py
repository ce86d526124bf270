"""Real trainings: verl's `main_ppo` on the CPU, its trainers, Ray and TransferQueue, with a tiny model."""

import json
from pathlib import Path

import pytest

pytestmark = [pytest.mark.verl, pytest.mark.train]

CHECKOUT = Path(__file__).resolve().parents[3]
REWARD = Path(__file__).parent / "hostile_reward.py"
HOSTILE = [f"reward.custom_reward_function.path={REWARD}", "reward.custom_reward_function.name=compute_score"]
CORE = ["input", "output", "gts", "score", "step"]


def expected_extras(index, use_v1):
    """What the reward function returned for a question, after a line was read back."""
    return {
        "acc": bool(index % 2),
        "count": index,
        "ratio": 0.1,
        "nested": {"a": 1, "b": {"c": 0.5, "d": [False]}},
        "nan": None,
        "scalar_tensor": 1.5,
        "tensor": [1, 2],
        "ragged": list(range(index % 3 if use_v1 else 2)),
        "array": [1.5, 2.5],
        "a_set": [1, 2],
        "date": "2026-01-02T00:00:00",
        "text": "é\u2028\x85",
        "none": None,
    }


def check_records(records, step, use_v1):
    for record in records:
        assert list(record)[:5] == CORE
        assert record["step"] == step
        assert record["input"] and isinstance(record["output"], str)
        index = record["count"]
        assert record["score"] == index % 3 / 2
        expected = expected_extras(index, use_v1)
        assert {name: record[name] for name in expected} == expected
        assert [type(record[name]) for name in expected] == [type(value) for value in expected.values()]


@pytest.fixture(scope="session")
def hostile(train):
    """A training and a validation of each trainer with the hostile reward function, both into one directory."""
    trainings = {}

    def run(use_v1):
        if use_v1 not in trainings:
            trainings[use_v1] = train(
                *HOSTILE,
                f"trainer.use_v1={use_v1}",
                "trainer.validation_data_dir=${trainer.rollout_data_dir}",
                "trainer.test_freq=2",
                SPARSE="yes" if use_v1 else "no",
            )
        return trainings[use_v1]

    return run


@pytest.mark.parametrize("use_v1", [True, False], ids=["v1", "v0"])
def test_hostile_rewards_arrive_whole(hostile, read_strict, use_v1):
    training = hostile(use_v1)
    files = {path.name: read_strict(path) for path in training.dump.glob("*.jsonl")}
    assert sorted(files) == ["1.jsonl", "2.jsonl"]
    assert {len(records) for records in files.values()} == {16}  # 4 prompts, 4 samples each
    for step, records in ((1, files["1.jsonl"]), (2, files["2.jsonl"])):
        check_records(records, step, use_v1)
        if use_v1:  # in v0 verl itself fails on keys that only some rollouts have
            odd = [record["count"] if record["count"] % 2 else None for record in records]
            assert [record["only_odd"] for record in records] == odd
    record = json.loads((training.dump / "run.json").read_bytes())
    assert (record["state"], record["attempts"][0]["steps"]) == ("complete", "1-2")
    assert (record["report"]["records_written"], record["report"]["steps_failed"]) == (32, [])
    assert "Dumped generations to" not in training.log  # one writer, not two


@pytest.mark.parametrize("use_v1", [True, False], ids=["v1", "v0"])
def test_validations_do_not_collide_with_trainings(hostile, read_strict, use_v1):
    training = hostile(use_v1)
    (path,) = (training.dump / "validation").glob("*.jsonl")
    records = read_strict(path)
    assert path.name == "2.jsonl" and records
    for record in records:
        index = record["count"]
        assert list(record)[:5] == CORE and record["step"] == 2
        assert (record["score"], record["reward"]) == (index % 3 / 2, index % 3 / 2)
        assert record["acc"] in (bool(index % 2), float(index % 2))  # verl makes some of them floats on the way
    record = json.loads((training.dump / "validation/run.json").read_bytes())
    assert (record["split"], record["state"]) == ("validation", "complete")
    assert (record["report"]["steps_written"], record["report"]["records_written"]) == (1, 8)


def test_both_trainers_give_the_same_columns(hostile, read_strict):
    columns = {}
    for use_v1 in (True, False):
        records = read_strict(hostile(use_v1).dump / "1.jsonl")
        (columns[use_v1],) = {tuple(name for name in record if name != "only_odd") for record in records}
    assert columns[True] == columns[False]


def test_colocate_async_with_the_versions_of_the_weights(train, read_strict):
    training = train("trainer.v1.trainer_mode=colocate_async", "rollout_dump/fields=trainer")
    for step in (1, 2):
        records = read_strict(training.dump / f"{step}.jsonl")
        assert len(records) == 16
        for record in records:
            besides = ["data_source", "num_turns", "raw_prompt", "response_length", "min_global_steps"]
            assert list(record)[:12] == [*CORE, "uid", *besides, "max_global_steps"]
            assert record["num_turns"] == 2
            assert record["raw_prompt"][-1]["role"] == "user"
            assert record["raw_prompt"][-1]["content"] in record["input"]
            assert 1 <= record["response_length"] <= 32
            assert 0 <= record["min_global_steps"] <= record["max_global_steps"] <= step


def test_external_lib_comes_late_and_works(train, read_strict):
    training = train(
        f"--config-dir={CHECKOUT / 'conf'}",
        "actor_rollout_ref.model.external_lib=verl_rollout_dump.plugin",
        VERL_USE_EXTERNAL_PLUGINS="verl_rollout_dump_cpu",
    )
    assert [len(read_strict(training.dump / f"{step}.jsonl")) for step in (1, 2)] == [16, 16]
    record = json.loads((training.dump / "run.json").read_bytes())
    assert record["state"] == "complete"
    assert {"acc", "n_numbers"} <= set(training.records(1)[0])


def test_a_sweep_keeps_its_jobs_apart(train, read_strict):
    training = train(
        "-m",
        "rollout_dump/path=per_run",
        "rollout_dump/serialization=early_convert,str_fallback",
        "trainer.total_training_steps=1",
        "hydra.sweep.dir=sweep",
    )
    native, fallback = (read_strict(training.folder / f"sweep/{job}/rollouts/1.jsonl") for job in (0, 1))
    assert {type(record["acc"]) for record in native} == {bool}
    assert {record["acc"] for record in fallback} <= {"True", "False"}
    assert not training.dump.exists()
