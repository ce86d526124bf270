"""TRL's own trainers with a tiny model on the CPU, and what is in the files after them.

Run by test_trl.py, in the environment that it makes.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from verl_rollout_dump import ConfigError, DumpError, RolloutCallback, register_callback
from verl_rollout_dump.hooks import unregister_callback

CHECKOUT = Path(__file__).resolve().parents[3]
ANSWERS = ["5", "12", "3", "8"]
LAUNCHED = Path(__file__).with_name("several_processes.py")


@pytest.fixture(scope="session")
def model_path():
    from verl_rollout_dump.verl_cpu.prepare import prepare

    return prepare("tiny", CHECKOUT / ".cache" / "verl_cpu" / "tiny") / "model"


class RecordedRewards:
    """Reward functions as users write them, with everything they were given and returned."""

    def __init__(self, fail_at=None):
        self.calls = []
        self.fail_at = fail_at
        self.functions = [self.recorded("length", self.length), self.recorded("lucky", self.lucky)]

    def recorded(self, name, function):
        def reward(prompts, completions, **columns):
            values = function(completions, **columns)
            self.calls.append((name, list(prompts), list(completions), columns["index"], values))
            return values

        reward.__name__ = name
        return reward

    def length(self, completions, log_extra, trainer_state, **_):
        if trainer_state.global_step == self.fail_at:
            raise RuntimeError("this reward function has a bug")
        log_extra("characters", [np.int64(len(completion)) for completion in completions])
        return [len(completion) / 7 for completion in completions]

    def lucky(self, completions, index, **_):
        return [None if i % 2 else np.float64(0.1) for i in index]

    def returned(self, name):
        """One row per rollout, in the order in which they were scored: prompt, completion, index, value."""
        return [row for called, *columns in self.calls if called == name for row in zip(*columns, strict=True)]


@pytest.fixture
def make_trainer(model_path, tmp_path):
    def make(rewards, conversational=False, kind="GRPO", eval_dataset=None, **arguments):
        import trl
        from datasets import Dataset
        from transformers import AutoTokenizer

        questions = [f"What is {i} + {i}?" for i in range(len(ANSWERS))]
        data = {
            "prompt": [[{"role": "user", "content": text}] for text in questions] if conversational else questions,
            "answer": ANSWERS,
            "index": list(range(len(ANSWERS))),
            "meta": [{"level": i / 8, "tags": ["a", "b"][: i % 3]} for i in range(len(ANSWERS))],
        }
        settings = {
            "output_dir": str(tmp_path / "checkpoints"),
            "use_cpu": True,
            "max_steps": 2,
            "per_device_train_batch_size": 4,
            "per_device_eval_batch_size": 4,
            "num_generations": 2,
            "max_completion_length": 6,
            "report_to": "none",
            "save_strategy": "no",
            "logging_steps": 1,
            "dataloader_pin_memory": False,
            "learning_rate": 1e-3,
            **arguments,
        }
        return getattr(trl, f"{kind}Trainer")(
            model=str(model_path),
            reward_funcs=rewards.functions,
            args=getattr(trl, f"{kind}Config")(**settings),
            train_dataset=Dataset.from_dict(data),
            eval_dataset=eval_dataset and {n: Dataset.from_dict(data).select(r) for n, r in eval_dataset.items()},
            processing_class=AutoTokenizer.from_pretrained(model_path),
        )

    return make


def directories(folder, **options):
    paths = {"dir": str(folder / "rollouts"), "validation_dir": str(folder / "validation")}
    return {"path": paths, "on_error": "raise", **options}


def shortest(value):
    """The number in the file for a reward: TRL makes it a float32; the shortest decimal of that is written."""
    return None if value is None else float(str(np.float32(value)))


def check_records(records, step, lengths, lucks):
    """Compare records with what the reward functions were given and returned, exactly."""
    assert [record["step"] for record in records] == [step] * len(lengths)
    for record, (prompt, completion, index, length), (_, _, _, luck) in zip(records, lengths, lucks, strict=True):
        assert record["input"] == prompt
        assert record["output"] == completion
        assert record["gts"] == ANSWERS[index]
        assert record["index"] == index
        assert record["characters"] == len(completion)
        assert record["meta"] == {"level": index / 8, "tags": ["a", "b"][: index % 3]}
        assert record["length"] == shortest(length)
        assert record["lucky"] == shortest(luck)
        weighted = np.float32(length) * np.float32(0.5) + np.float32(0 if luck is None else luck) * np.float32(2)
        assert record["score"] == pytest.approx(float(weighted), rel=1e-6)


EXTRAS = ["length", "lucky", "advantage", "characters", "index", "meta"]


def test_a_training_with_evaluations(make_trainer, tmp_path, read_strict):
    from verl_rollout_dump.integrations.trl import dump_rollouts

    rewards = RecordedRewards()
    trainer = make_trainer(
        rewards,
        gradient_accumulation_steps=2,
        steps_per_generation=1,  # so that a step has two generations
        reward_weights=[0.5, 2.0],
        eval_strategy="steps",
        eval_steps=2,
        eval_dataset={"easy": [0, 1], "hard": [2, 3]},
    )
    dump_rollouts(trainer, directories(tmp_path))
    trainer.train()

    assert sorted(path.name for path in (tmp_path / "rollouts").glob("*.jsonl")) == ["1.jsonl", "2.jsonl"]
    lengths, lucks = rewards.returned("length"), rewards.returned("lucky")
    for step in (1, 2):
        records = read_strict(tmp_path / "rollouts" / f"{step}.jsonl")
        of_step = slice((step - 1) * 8, step * 8)
        check_records(records, step, lengths[of_step], lucks[of_step])
        assert {tuple(record) for record in records} == {("input", "output", "gts", "score", "step", *EXTRAS)}
        for first, second in zip(records[::2], records[1::2], strict=True):  # the two rollouts of one prompt
            assert first["input"] == second["input"]
            assert first["advantage"] == pytest.approx(-second["advantage"], abs=1e-5)
            assert (first["advantage"] > 0) == (first["score"] > second["score"])

    evaluated = read_strict(tmp_path / "validation" / "2.jsonl")
    check_records(evaluated, 2, lengths[16:], lucks[16:])
    assert [record["eval_dataset"] for record in evaluated] == ["easy"] * 4 + ["hard"] * 4
    record = json.loads((tmp_path / "rollouts" / "run.json").read_bytes())
    assert (record["state"], record["attempts"][0]["steps"]) == ("complete", "1-2")
    assert record["report"]["records_written"] == 16


def test_conversations_and_token_ids_in_a_training_that_raises(make_trainer, tmp_path, read_strict):
    from verl_rollout_dump.integrations.trl import dump_rollouts

    rewards = RecordedRewards(fail_at=1)
    trainer = make_trainer(rewards, conversational=True, mask_truncated_completions=True)
    dump_rollouts(trainer, directories(tmp_path, fields={"tokens": True}), ground_truth="answer")
    with pytest.raises(RuntimeError, match="has a bug"):
        trainer.train()

    assert [path.name for path in (tmp_path / "rollouts").glob("*.jsonl")] == ["1.jsonl"]
    records = read_strict(tmp_path / "rollouts" / "1.jsonl")
    tokenizer = trainer.processing_class
    for record, (prompt, completion, index, _) in zip(records, rewards.returned("length"), strict=True):
        assert (record["prompt"], record["completion"]) == (prompt, completion)
        assert record["output"] == completion[0]["content"]
        assert prompt[0]["content"] in record["input"]
        assert record["input"] == tokenizer.decode(record["prompt_ids"], skip_special_tokens=True)
        assert record["output"] == tokenizer.decode(record["response_ids"], skip_special_tokens=True)
        assert record["gts"] == ANSWERS[index]
    assert json.loads((tmp_path / "rollouts" / "run.json").read_bytes())["state"] == "failed"


@pytest.fixture
def best_response():
    """A callback of a user's own that wants text, registered."""

    class BestResponse(RolloutCallback):
        tokenizer = None
        told = []

        def on_rollout_end(self, batch):
            best = max(range(len(batch)), key=batch.scores.__getitem__)
            self.told.append(self.tokenizer.decode(batch.responses[best], skip_special_tokens=True))
            raise ValueError("a bug in it disturbs nothing")

    register_callback("best_response")(BestResponse)
    yield BestResponse
    unregister_callback("best_response")


def test_rloo_a_users_callback_and_what_comes_after(make_trainer, tmp_path, read_strict, caplog, best_response):
    from verl_rollout_dump.integrations.trl import dump_rollouts

    rewards = RecordedRewards()
    trainer = make_trainer(rewards, kind="RLOO", reward_weights=[0.5, 2.0], max_steps=1, eval_dataset={"all": [0, 1]})
    dump_rollouts(trainer, directories(tmp_path))
    with pytest.raises(DumpError, match="dumped already"):
        dump_rollouts(trainer, directories(tmp_path / "another"))
    trainer.train()
    records = read_strict(tmp_path / "rollouts" / "1.jsonl")
    check_records(records, 1, rewards.returned("length"), rewards.returned("lucky"))
    assert best_response.told == [max(records, key=lambda record: record["score"])["output"]]
    assert "callback BestResponse failed in on_rollout_end" in caplog.text

    trainer.evaluate()
    assert "the dump ended with the training. Call dump_rollouts" in caplog.text
    assert not (tmp_path / "validation" / "1.jsonl").exists()
    dump_rollouts(trainer, directories(tmp_path))
    trainer.evaluate()
    assert len(read_strict(tmp_path / "validation" / "1.jsonl")) == 4


def test_a_fault_in_reading_does_not_end_the_training(make_trainer, tmp_path, caplog, monkeypatch):
    from verl_rollout_dump.integrations.trl import dump_rollouts
    from verl_rollout_dump.integrations.trl import feed as trl_feed

    def broken(*_):
        raise KeyError("prompt_ids")

    monkeypatch.setattr(trl_feed, "read_rollouts", broken)
    trainer = make_trainer(RecordedRewards())
    dump_rollouts(trainer, directories(tmp_path, on_error="warn"))
    assert trainer.train().global_step == 2
    assert caplog.text.count("TRL's rollouts cannot be read") == 1
    trainer = make_trainer(RecordedRewards())
    dump_rollouts(trainer, directories(tmp_path, on_error="raise"))
    with pytest.raises(KeyError):
        trainer.train()


def test_mistakes_are_refused_at_once(make_trainer, tmp_path):
    from verl_rollout_dump.integrations.trl import dump_rollouts

    trainer = make_trainer(RecordedRewards())
    with pytest.raises(ConfigError, match=r"'solutoin' is not a column of the dataset\. Its columns: prompt, answer"):
        dump_rollouts(trainer, directories(tmp_path), ground_truth="solutoin")
    with pytest.raises(ConfigError, match=r"path\.dir is not set"):
        dump_rollouts(trainer)
    with pytest.raises(ConfigError, match="_calculate_rewards is not there"):
        dump_rollouts(object(), directories(tmp_path))
    assert not (tmp_path / "rollouts").exists()


def test_two_processes_write_one_dump(model_path, tmp_path, read_strict):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    arguments = [str(LAUNCHED), str(model_path), str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    result = subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-3000:]
    returned = [json.loads((tmp_path / f"returned-{process}.json").read_text()) for process in (0, 1)]
    for step in (1, 2):
        records = read_strict(tmp_path / "rollouts" / f"{step}.jsonl")
        expected = [row for process in returned for row in process[step - 1]]
        found = [[record[name] for name in ("input", "output", "index", "length")] for record in records]
        assert found == [[*row[:3], shortest(row[3])] for row in expected]
        assert [record["score"] for record in records] == [record["length"] for record in records]
    evaluated = read_strict(tmp_path / "validation" / "2.jsonl")
    # in batches of four; the second is filled up with the first question
    assert [record["index"] for record in evaluated] == [0, 0, 2, 2, 1, 1, 0, 0]
    expected = [
        row[3] for call in zip(*(process[2:] for process in returned), strict=True) for rows in call for row in rows
    ]
    assert [record["score"] for record in evaluated] == [shortest(value) for value in expected]
    attempts = json.loads((tmp_path / "rollouts" / "run.json").read_bytes())["attempts"]
    assert [attempt["state"] for attempt in attempts] == ["complete"]
