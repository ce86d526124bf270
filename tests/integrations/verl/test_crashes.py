"""Real trainings that are killed, resumed, and whose dump becomes unwritable."""

import json
import shutil
from pathlib import Path

import pytest

from verl_rollout_dump.storage.lineage import lineage

pytestmark = [pytest.mark.verl, pytest.mark.train]

REWARD = [
    f"reward.custom_reward_function.path={Path(__file__).parent / 'crashing_reward.py'}",
    "reward.custom_reward_function.name=compute_score",
]


def test_killed_in_step_3_and_resumed_from_its_checkpoint(run_training, tmp_path, read_strict):
    checkpoints = tmp_path / "checkpoints"
    overrides = [
        *REWARD,
        "trainer.total_training_steps=4",
        "trainer.save_freq=1",
        "trainer.resume_mode=auto",
        f"trainer.default_local_dir={checkpoints}",
    ]
    dump = tmp_path / "rollouts"
    killed = run_training(*overrides, folder=tmp_path, CRASH="kill 2", CRASH_DUMP=str(dump))
    assert killed.code != 0
    assert sorted(lineage(dump)) == [1, 2], killed.tail()
    first = {step: read_strict(path) for step, path in lineage(dump).items()}

    # as if the checkpoint of step 2 had not been complete: step 2 is done over again
    shutil.rmtree(checkpoints / "global_step_2", ignore_errors=True)
    (checkpoints / "latest_checkpointed_iteration.txt").write_text("1")
    resumed = run_training(*overrides, folder=tmp_path, CRASH_DUMP=str(dump))
    assert resumed.code == 0, resumed.tail()
    steps = {step: read_strict(path) for step, path in lineage(dump).items()}
    assert sorted(steps) == [1, 2, 3, 4]
    assert {len(records) for records in steps.values()} == {len(first[1])}
    assert all(record["step"] == step for step, records in steps.items() for record in records)
    assert steps[1] == first[1]
    assert read_strict(dump / "superseded/1/2.jsonl") == first[2]
    attempts = json.loads((dump / "run.json").read_bytes())["attempts"]
    assert [(a["state"], a["first_step"], a["steps"], a["superseded"]) for a in attempts] == [
        ("failed", 1, "1-2", "2"),
        ("complete", 2, "2-4", ""),
    ]


@pytest.fixture
def unwritable(run_training, tmp_path):
    """Train two steps; from step 2 on a file stands where the dump's directory was."""

    def run(on_error):
        return run_training(
            *REWARD,
            f"rollout_dump.on_error={on_error}",
            folder=tmp_path,
            CRASH="unwritable 1",
            CRASH_DUMP=str(tmp_path / "rollouts"),
        )

    return run


def test_under_warn_an_unwritable_dump_lets_the_training_end_and_says_what_is_missing(unwritable, tmp_path):
    training = unwritable("warn")
    assert training.code == 0, training.tail()
    assert "step 2 is not dumped (could not write its rollouts): FileExistsError" in training.log
    assert "rollouts of 1 steps are missing in the dump: [2]" in training.log
    assert "Written: steps 1; failed: 2" in training.log
    assert (tmp_path / "moved/1.jsonl").exists()


def test_under_raise_it_stops_in_step_2(unwritable, tmp_path):
    training = unwritable("raise")
    assert training.code != 0
    assert "DumpError: step 2 is not dumped" in training.log
    assert (tmp_path / "moved/1.jsonl").exists()
    assert "step:2 -" not in training.log  # what verl's console logger prints when a step is over
