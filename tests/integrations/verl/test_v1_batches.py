"""verl's v1 trainer with a real TransferQueue on a local Ray, without its workers."""

import json
import logging

import pytest

from verl_rollout_dump import RolloutCallback, register_callback
from verl_rollout_dump.analysis.stats import step_stats
from verl_rollout_dump.hooks import unregister_callback
from verl_rollout_dump.reader import open_dump

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.verl


@pytest.fixture(scope="module")
def tokenizer(tiny_assets):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_assets / "model")


@pytest.fixture
def trainer(tokenizer, tmp_path):
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

    from verl_rollout_dump.integrations.verl.wrappers import dump_of

    def make(**node):
        trainer = object.__new__(PPOTrainerSync)
        trainer.tokenizer, trainer.global_steps = tokenizer, 3
        trainer.config = {"trainer": {"rollout_data_dir": str(tmp_path)}, "rollout_dump": node}
        dump_of(trainer)
        return trainer

    return make


def put(queue, tokenizer, rows):
    """Put rollouts into the queue as verl's agent loop does; return the batch that its replay buffer makes of them."""
    from transfer_queue.metadata import KVBatchMeta
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict

    fields = [
        {
            "uid": key.rsplit("_", 2)[0],
            "prompts": torch.tensor(tokenizer(prompt)["input_ids"]),
            "responses": torch.tensor(tokenizer(response)["input_ids"]),
            "response_mask": torch.full((len(tokenizer(response)["input_ids"]),), int(score >= 0)),
            "rm_scores": torch.zeros(len(tokenizer(response)["input_ids"])).index_fill(0, torch.tensor([0]), score),
            "rollout_log_probs": torch.full((len(tokenizer(response)["input_ids"]),), -0.1),
            "reward_model": {"ground_truth": "g", "style": "rule"},
            "data_source": "toy",
            "num_turns": 2,
            "raw_prompt": [{"role": "user", "content": prompt}],
            "extra_fields": {"reward_extra_info": extras, "global_steps": 3},
        }
        for key, prompt, response, score, extras, _ in rows
    ]
    keys = [row[0] for row in rows]
    tags = [{"is_padding": row[5], "min_global_steps": 2, "max_global_steps": 3, "response_len": 9} for row in rows]
    queue.kv_batch_put(keys=keys, partition_id="train", fields=list_of_dict_to_tensordict(fields), tags=tags)
    return KVBatchMeta(partition_id="train", keys=keys, tags=tags)


ROWS = [
    ("u_0_10", "hello", "tenth", 0.1, {"score": 0.1, "acc": True, "pred": "x"}, False),
    ("u_0_2", "hello", "second answer", 1.0, {"score": 1.0, "acc": False}, False),
    ("u_1_0", "world ?", "zero", 0.0, {"score": 0.0, "acc": True, "info": {"a": [1, 2]}}, True),
    ("t_0_0", "what is", "first", -0.5, {"score": -0.5, "info": {"a": []}}, False),
]


def test_every_extra_arrives_in_the_order_of_the_keys(queue, tokenizer, trainer, tmp_path, read_strict):
    # verl-project/verl#7588: the stock trainer drops every extra
    ours, batch = trainer(), put(queue, tokenizer, ROWS)
    timing = {}
    ours._log_rollout_data(batch, timing, str(tmp_path))
    queue.kv_clear(keys=batch.keys, partition_id="train")  # as the trainer does next
    ours._rollout_dump.hooks.fire_train_end()
    names = ["input", "output", "gts", "score", "step", "uid", "info", "acc", "pred"]
    rows = [
        ["what is", "first", "g", -0.5, 3, "t_0_0", {"a": []}, None, None],
        ["hello", "second answer", "g", 1.0, 3, "u_0_2", None, False, None],
        ["hello", "tenth", "g", 0.1, 3, "u_0_10", None, True, "x"],
    ]
    records = read_strict(tmp_path / "3.jsonl")
    assert [list(record.values()) for record in records] == rows
    assert [list(record) for record in records] == [names] * 3
    assert timing["dump_rollout_generations"] > 0


def test_run_json_says_that_uids_name_rollouts(queue, tokenizer, trainer, tmp_path):
    ours, batch = trainer(), put(queue, tokenizer, ROWS)
    ours._log_rollout_data(batch, {}, str(tmp_path))
    ours._rollout_dump.hooks.fire_train_end()
    assert json.loads((tmp_path / "run.json").read_text())["uid_form"] == "{uid}_{session}_{output}"
    (stats,) = step_stats(open_dump(tmp_path))
    assert stats.groups == 1  # u_0_2 and u_0_10
    assert len(set(open_dump(tmp_path).groups(3))) == 2


def test_what_verl_writes_rightly_is_the_same_in_ours(queue, tokenizer, trainer, tmp_path, read_strict, golden):
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    rows = [row for row in ROWS if not row[5]]  # verl writes padding rows too
    stock, ours, batch = trainer(enabled=False), trainer(), put(queue, tokenizer, rows)
    stock._init_dump_executor()
    PPOTrainer._log_rollout_data.__wrapped__(stock, batch, {}, str(tmp_path / "stock"))
    stock._shutdown_dump_executor()
    ours._log_rollout_data(batch, {}, "")
    queue.kv_clear(keys=batch.keys, partition_id="train")
    ours._rollout_dump.hooks.fire_train_end()
    records = read_strict(tmp_path / "3.jsonl")
    for record in records:
        for name in ("acc", "pred", "info"):  # which verl leaves out
            del record[name]
    golden("v1", tmp_path / "stock/3.jsonl", records)


def test_token_fields_come_out_of_the_queue(queue, tokenizer, trainer, tmp_path, read_strict):
    ours = trainer(fields={"tokens": True, "include": ["prompt_ids", "response_ids", "rollout_log_probs"]})
    batch = put(queue, tokenizer, ROWS[:2])
    ours._log_rollout_data(batch, {}, str(tmp_path))
    queue.kv_clear(keys=batch.keys, partition_id="train")
    ours._rollout_dump.hooks.fire_train_end()
    records = read_strict(tmp_path / "3.jsonl")
    ids = [tokenizer(text)["input_ids"] for text in ("second answer", "tenth")]
    assert [record["response_ids"] for record in records] == ids
    assert [record["rollout_log_probs"] for record in records] == [[-0.1] * len(row) for row in ids]


def test_one_call_and_only_the_fields_that_are_needed(queue, tokenizer, trainer, monkeypatch):
    calls = []
    real = queue.kv_batch_get
    monkeypatch.setattr(queue, "kv_batch_get", lambda **given: calls.append(given) or real(**given))
    ours, batch = trainer(), put(queue, tokenizer, ROWS)
    ours._log_rollout_data(batch, {}, "")
    queue.kv_clear(keys=batch.keys, partition_id="train")
    ours._rollout_dump.hooks.fire_train_end()
    assert len(calls) == 1
    assert calls[0]["select_fields"] == ["prompts", "responses", "rm_scores", "reward_model", "extra_fields"]
    assert calls[0]["keys"] == ["t_0_0", "u_0_2", "u_0_10"]


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({"include": ["input", "output"]}, []),
        ({"include": ["output", "score", "uid"]}, ["rm_scores"]),
        ({"include": ["gts", "num_turns"], "trainer": ["num_turns"]}, ["reward_model", "num_turns"]),
        ({"include": ["num_turns"]}, ["rm_scores", "extra_fields"]),
        ({"include": ["acc"]}, ["rm_scores", "extra_fields"]),
        ({"include": ["*"], "exclude": ["g*"]}, ["rm_scores", "extra_fields"]),
        ({"include": ["response_ids"], "tokens": True}, ["rollout_log_probs"]),
        ({"include": ["output", "outcome"]}, ["response_mask"]),
    ],
    ids=str,
)
def test_what_the_whitelist_leaves_out_is_not_asked_for(fields, asked, queue, tokenizer, trainer, monkeypatch):
    calls = []
    real = queue.kv_batch_get
    monkeypatch.setattr(queue, "kv_batch_get", lambda **given: calls.append(given) or real(**given))
    ours, batch = trainer(fields=fields, on_error="raise"), put(queue, tokenizer, ROWS)
    if "outcome" in fields["include"] or fields["include"] == ["input", "output"]:
        ours.config["algorithm"] = {"filter_groups": {"enable": True}}
    ours._log_rollout_data(batch, {}, "")
    queue.kv_clear(keys=batch.keys, partition_id="train")
    ours._rollout_dump.hooks.fire_train_end()
    assert [call["select_fields"] for call in calls] == [["prompts", "responses", *asked]]


def test_other_callbacks_see_what_the_whitelist_leaves_out(queue, tokenizer, trainer, tmp_path, read_strict):
    seen = []

    @register_callback("seen")
    class Seen(RolloutCallback):
        def on_rollout_end(self, batch):
            seen.append((batch.scores.tolist(), batch.ground_truths, list(batch.extras)))

    try:
        ours, batch = trainer(fields={"include": ["output"]}), put(queue, tokenizer, ROWS[:2])
    finally:
        unregister_callback("seen")
    ours._log_rollout_data(batch, {}, "")
    queue.kv_clear(keys=batch.keys, partition_id="train")
    ours._rollout_dump.hooks.fire_train_end()
    assert seen == [([1.0, pytest.approx(0.1)], ["g", "g"], ["acc", "pred"])]
    assert read_strict(tmp_path / "3.jsonl") == [{"output": "second answer"}, {"output": "tenth"}]


def test_what_the_trainer_knows_besides(queue, tokenizer, trainer, tmp_path, read_strict):
    ours, batch = trainer(fields={"trainer": ["*"]}), put(queue, tokenizer, ROWS[:2])
    ours._log_rollout_data(batch, {}, str(tmp_path))
    queue.kv_clear(keys=batch.keys, partition_id="train")
    ours._rollout_dump.hooks.fire_train_end()
    (record, _) = read_strict(tmp_path / "3.jsonl")
    assert {name: record[name] for name in list(record)[6:12]} == {
        "data_source": "toy",
        "num_turns": 2,
        "raw_prompt": [{"role": "user", "content": "hello"}],
        "response_length": 9,
        "min_global_steps": 2,
        "max_global_steps": 3,
    }


def test_a_batch_of_padding_alone_makes_no_file(queue, trainer, tmp_path):
    from transfer_queue.metadata import KVBatchMeta

    ours = trainer()
    ours._log_rollout_data(KVBatchMeta(partition_id="train", keys=["a_0_0"], tags=[{"is_padding": True}]), {}, "")
    ours._rollout_dump.hooks.fire_train_end()
    assert not list(tmp_path.glob("*.jsonl"))


def test_keys_that_the_queue_does_not_know_do_not_end_the_training(queue, trainer, caplog):
    from transfer_queue.metadata import KVBatchMeta

    ours = trainer()
    with caplog.at_level(logging.ERROR):
        ours._log_rollout_data(KVBatchMeta(partition_id="train", keys=["none_0_0"], tags=[{}]), {}, "")
    assert "step 3 is not dumped (could not read its rollouts)" in caplog.text
    ours._rollout_dump.hooks.fire_train_end()
    assert ours._rollout_dump.hooks.callbacks[0].report.steps_failed == [3]


def test_a_step_that_is_not_wanted_is_not_read(queue, tokenizer, trainer, tmp_path, monkeypatch):
    ours, batch = trainer(sampling={"every_n_steps": 2}), put(queue, tokenizer, ROWS)
    asked = []
    get = queue.kv_batch_get
    monkeypatch.setattr(queue, "kv_batch_get", lambda **arguments: asked.append(arguments) or get(**arguments))
    for step in (3, 4):
        ours.global_steps = step
        ours._log_rollout_data(batch, {}, str(tmp_path))
    queue.kv_clear(keys=batch.keys, partition_id="train")
    ours._rollout_dump.hooks.fire_train_end()
    assert [path.name for path in tmp_path.glob("*.jsonl")] == ["4.jsonl"]
    assert len(asked) == 1
    assert ours._rollout_dump.hooks.callbacks[0].report.steps_not_sampled == 1


def test_outcomes_come_from_the_loss_mask(queue, tokenizer, trainer, tmp_path, read_strict):
    ours, batch = trainer(), put(queue, tokenizer, ROWS)
    ours.config["algorithm"] = {"rollout_correction": {"rollout_rs": "token_k1"}}
    ours._log_rollout_data(batch, {}, "")
    queue.kv_clear(keys=batch.keys, partition_id="train")
    ours._rollout_dump.hooks.fire_train_end()
    records = read_strict(tmp_path / "3.jsonl")
    assert [(record["uid"], record["outcome"]) for record in records] == [
        ("t_0_0", "rejected"),
        ("u_0_2", "trained"),
        ("u_0_10", "trained"),
    ]
