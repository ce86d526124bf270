"""verl's v0 trainer without Ray: its real class, a real DataProto, its own dump beside ours."""

import json
import logging
import threading
import types

import numpy as np
import pytest

from verl_rollout_dump import RolloutCallback, register_callback
from verl_rollout_dump.hooks import unregister_callback

torch = pytest.importorskip("torch")
from verl_rollout_dump.integrations.verl import v0 as verl_v0  # noqa: E402

pytestmark = pytest.mark.verl

PROMPTS = ["what is 1 + 2 ?", "hello", "é ü"]
ANSWERS = ["the answer is 3", "world", "日本 \u2028 \x85 end"]


@pytest.fixture(scope="module")
def tokenizer(tiny_assets):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_assets / "model")


def padded(tokenizer, texts, side):
    rows = [tokenizer(text)["input_ids"] for text in texts]
    length = max(map(len, rows)) + 2
    ids = torch.full((len(rows), length), tokenizer.pad_token_id)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        where = slice(length - len(row), length) if side == "left" else slice(0, len(row))
        ids[i, where] = torch.tensor(row)
        mask[i, where] = 1
    return ids, mask


@pytest.fixture
def proto(tokenizer):
    from verl import DataProto

    prompts, prompt_mask = padded(tokenizer, PROMPTS, "left")
    responses, response_mask = padded(tokenizer, ANSWERS, "right")
    scores = torch.zeros(responses.shape, dtype=torch.float32)
    scores[:, 1] = torch.tensor([1.0, 0.1, -0.5])
    return DataProto.from_dict(
        tensors={
            "prompts": prompts,
            "responses": responses,
            "attention_mask": torch.cat([prompt_mask, response_mask], dim=1),
            "response_mask": response_mask.clone(),
            "token_level_scores": scores,
            "rollout_log_probs": -scores.abs(),
        },
        non_tensors={
            "uid": np.array(["u0", "u0", "u1"], dtype=object),
            "request_id": np.array(["r0", "r1", "r2"], dtype=object),
            "reward_model": np.array([{"ground_truth": g, "style": "rule"} for g in ("3", 7, None)], dtype=object),
        },
    )


@pytest.fixture
def trainer(tokenizer, tmp_path):
    """verl's trainer as far as dumping needs it: built without its workers."""
    from verl.trainer.ppo.ray_trainer import RayPPOTrainer

    from verl_rollout_dump.integrations.verl.wrappers import dump_of

    trainers = []

    def make(directory=tmp_path / "ours", **node):
        trainer = object.__new__(RayPPOTrainer)
        trainer.tokenizer, trainer.global_steps = tokenizer, 7
        trainer._init_dump_executor()
        trainer.config = {"trainer": {"rollout_data_dir": str(directory)}, "rollout_dump": node}
        dump_of(trainer)
        trainers.append(trainer)
        return trainer

    yield make
    for trainer in trainers:
        finish(trainer)
        trainer._dump_executor.shutdown()


def finish(trainer):
    if trainer._rollout_dump is not None:
        trainer._rollout_dump.hooks.fire_train_end()


def test_every_column_arrives(trainer, proto, tmp_path, read_strict):
    ours = trainer()
    timing = {}
    extras = {"acc": np.array([True, False, True]), "n": np.array([1, 2, 3]), "score": np.array([1.0, 0.1, -0.5])}
    ours._log_rollout_data(proto, extras, timing, str(tmp_path / "ours"))
    finish(ours)
    assert timing["dump_rollout_generations"] > 0
    assert read_strict(tmp_path / "ours/7.jsonl") == [
        {
            "input": PROMPTS[i],
            "output": ANSWERS[i],
            "gts": ("3", 7, None)[i],
            "score": (1.0, 0.1, -0.5)[i],
            "step": 7,
            "uid": ("u0", "u0", "u1")[i],
            "request_id": f"r{i}",
            "acc": (True, False, True)[i],
            "n": i + 1,
        }
        for i in range(3)
    ]
    assert set(extras) == {"acc", "n", "score"}  # verl's metrics use the dict next


def test_what_verl_writes_rightly_is_the_same_in_ours(trainer, proto, tmp_path, read_strict, golden):
    from verl.trainer.ppo.ray_trainer import RayPPOTrainer

    extras = {
        "n": np.array([1, 2, 3]),
        "acc": np.array([True, False, True]),
        "half": np.array([0.5, 0.25, 1.0]),
        "text": np.array(["a", "é", '"'], dtype=object),
        "nested": np.array([{"a": [1, "x", None]}] * 3, dtype=object),
    }
    stock = trainer(tmp_path / "unused")
    stock._dump_generations = types.MethodType(RayPPOTrainer._dump_generations.__wrapped__, stock)
    RayPPOTrainer._log_rollout_data.__wrapped__(stock, proto, dict(extras), {}, str(tmp_path / "stock"))
    stock._shutdown_dump_executor()
    ours = trainer()
    ours._log_rollout_data(proto, dict(extras), {}, "")
    finish(ours)
    records = read_strict(tmp_path / "ours/7.jsonl")
    assert [record.pop("uid") for record in records] == ["u0", "u0", "u1"]  # which verl leaves out
    golden("v0", tmp_path / "stock/7.jsonl", records)


def test_rejected_rows_are_written(trainer, proto, tmp_path, read_strict):
    # verl-project/verl#6375: verl's rejection sampling makes the response mask of a row zero
    from verl.trainer.config.algorithm import RolloutCorrectionConfig
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_add_to_batch

    generated = torch.zeros_like(proto.batch["rollout_log_probs"]) - 1.0
    proto.batch["rollout_log_probs"] = generated
    proto.batch["old_log_probs"] = generated.clone()
    proto.batch["old_log_probs"][1] -= 9.0
    proto.batch["old_log_probs"][2] -= 9.0
    config = RolloutCorrectionConfig(rollout_rs="seq_mean_k1", rollout_rs_threshold="0.5_2.0")
    rejected, _ = compute_rollout_correction_and_add_to_batch(proto, config)
    assert [bool(row.any()) for row in rejected.batch["response_mask"]] == [True, False, False]
    ours = trainer()
    ours.config["algorithm"] = {"rollout_correction": {"rollout_rs": "seq_mean_k1"}}
    ours._log_rollout_data(rejected, {"n": np.array([1, 2, 3])}, {}, "")
    finish(ours)
    records = read_strict(tmp_path / "ours/7.jsonl")
    assert [(record["n"], record["output"]) for record in records] == list(zip([1, 2, 3], ANSWERS, strict=True))
    assert [record["outcome"] for record in records] == ["trained", "rejected", "rejected"]
    assert list(records[0]) == ["input", "output", "gts", "score", "step", "uid", "request_id", "outcome", "n"]
    assert ours._rollout_dump.hooks.callbacks[0].report.padding_rows == 0


@pytest.mark.parametrize(
    ("returned", "written"),
    [
        ([1, "a", True], [1, "a", True]),
        ([True, 2, 0.5], [True, 2, 0.5]),
        ([b"\xff\x00", b"a", b"b"], [{"$bytes": "/wA="}, {"$bytes": "YQ=="}, {"$bytes": "Yg=="}]),
        (["x\0", "y", "z"], ["x\0", "y", "z"]),
        ([1.5, 2.5, float("nan")], [1.5, 2.5, None]),
        ([np.int64(1), np.int64(2), np.int64(3)], [1, 2, 3]),
    ],
)
def test_values_are_those_that_the_reward_function_returned(trainer, proto, tmp_path, read_strict, returned, written):
    # verl makes an array of each column, as `np.array(values)`, and keeps the dicts in another column
    proto.non_tensor_batch["reward_extra_info"] = np.array([{"odd": value} for value in returned], dtype=object)
    ours = trainer()
    extras = {"odd": np.array(returned), "acc": np.array([1, 0, 1]), "score": np.array([1.0, 0.1, -0.5])}
    ours._log_rollout_data(proto, extras, {}, "")
    finish(ours)
    records = read_strict(tmp_path / "ours/7.jsonl")
    assert [record["odd"] for record in records] == written
    assert [type(record["odd"]) for record in records] == [type(value) for value in written]
    assert [record["acc"] for record in records] == [1, 0, 1]
    assert "extra_score" not in records[0]


def test_values_that_the_trainer_changed_are_the_trainers(trainer, proto, tmp_path, read_strict):
    proto.non_tensor_batch["reward_extra_info"] = np.array([{"odd": value} for value in (1, "a", 2)], dtype=object)
    ours = trainer()
    ours._log_rollout_data(proto, {"odd": np.array(["3", "b", "4"])}, {}, "")
    finish(ours)
    assert [record["odd"] for record in read_strict(tmp_path / "ours/7.jsonl")] == ["3", "b", "4"]


def generations(directory):
    """The arguments with which a trainer dumps one rollout of its own accord."""
    return {
        "inputs": ["a"],
        "outputs": ["b"],
        "gts": ["1"],
        "scores": [1.0],
        "reward_extra_infos_dict": {"acc": [np.bool_(True)]},
        "dump_path": str(directory),
    }


def test_the_directory_says_what_dumped_generations_are(trainer, tmp_path, read_strict):
    # microsoft/agent-lightning#492: its trainer dumps training rollouts through _dump_generations
    record = {"input": "a", "output": "b", "gts": "1", "score": 1.0, "step": 7, "acc": True}
    ours = trainer(path={"validation_dir": str(tmp_path / "val")})
    for directory in ("ours", "val", "third"):
        ours._dump_generations(**generations(tmp_path / directory))
    ours._rollout_dump.fire_train_end()
    for directory in ("ours", "val", "third"):
        assert read_strict(tmp_path / directory / "7.jsonl") == [record]
        assert json.loads((tmp_path / directory / "run.json").read_bytes())["state"] == "complete"
        assert not (tmp_path / directory / "superseded").exists()


def test_a_step_that_is_dumped_twice_is_reported_in_each_split(trainer, tmp_path):
    ours = trainer(path={"validation_dir": str(tmp_path / "val")})
    ours._dump_generations(**generations(tmp_path / "val"))
    ours._dump_generations(**generations(tmp_path / "ours"))
    ours.global_steps = 8
    ours._dump_generations(**generations(tmp_path / "ours"))
    finish(ours)
    reports = [json.loads((tmp_path / name / "run.json").read_bytes())["report"] for name in ("ours", "val")]
    assert [(report["steps_written"], report["records_written"]) for report in reports] == [(2, 2), (1, 1)]
    assert ours._rollout_dump.hooks.callbacks[0].report.steps_written == 3


def test_tool_output_inside_a_response_is_kept(trainer, proto, tmp_path, read_strict):
    proto.batch["response_mask"][0, 3:] = 0
    ours = trainer()
    ours._log_rollout_data(proto, {}, {}, "")
    finish(ours)
    assert read_strict(tmp_path / "ours/7.jsonl")[0]["output"] == ANSWERS[0]


def test_token_fields(trainer, proto, tokenizer, tmp_path, read_strict):
    ours = trainer(fields={"tokens": True, "include": ["response_ids", "rollout_log_probs"]})
    ours._log_rollout_data(proto, {}, {}, "")
    finish(ours)
    records = read_strict(tmp_path / "ours/7.jsonl")
    assert [r["response_ids"] for r in records] == [tokenizer(text)["input_ids"] for text in ANSWERS]
    assert records[1]["rollout_log_probs"][:2] == [0.0, -0.1]
    assert [len(r["rollout_log_probs"]) for r in records] == [len(r["response_ids"]) for r in records]


def test_what_the_trainer_knows_besides(trainer, proto, tokenizer, tmp_path, read_strict):
    others = proto.non_tensor_batch
    others["data_source"] = np.array(["a", "b", "c"], dtype=object)
    others["__num_turns__"] = np.array([2, 4, 2], dtype=np.int32)
    others["min_global_steps"], others["max_global_steps"] = np.array([6, 5, 6]), np.array([6, 6, 6])
    others["raw_prompt"] = np.array([[{"role": "user", "content": text}] for text in PROMPTS] + [None], dtype=object)[
        :3
    ]
    ours = trainer(fields={"trainer": ["*"]})
    ours._log_rollout_data(proto, {"acc": np.array([1, 2, 3]), "num_turns": np.array([9, 9, 9])}, {}, "")
    finish(ours)
    records = read_strict(tmp_path / "ours/7.jsonl")
    assert list(records[1])[5:] == [
        *("uid", "request_id", "data_source", "num_turns", "min_global_steps", "max_global_steps", "raw_prompt"),
        *("response_length", "acc", "extra_num_turns"),
    ]
    assert [r["num_turns"] for r in records] == [2, 4, 2]
    assert [(r["min_global_steps"], r["max_global_steps"]) for r in records] == [(6, 6), (5, 6), (6, 6)]
    assert [r["response_length"] for r in records] == [len(tokenizer(text)["input_ids"]) for text in ANSWERS]
    assert records[0]["raw_prompt"] == [{"role": "user", "content": PROMPTS[0]}]


def test_other_callbacks_see_whole_batches(trainer, proto, tmp_path, read_strict):
    seen = []

    @register_callback("seen")
    class Seen(RolloutCallback):
        def on_rollout_end(self, batch):
            seen.append((batch.scores, batch.response_mask))

    try:
        ours = trainer()
    finally:
        unregister_callback("seen")
    ours._log_rollout_data(proto, {}, {}, "")
    finish(ours)
    ((scores, mask),) = seen
    assert scores.tolist() == proto.batch["token_level_scores"].sum(-1).tolist()
    assert mask.tolist() == proto.batch["response_mask"].tolist()
    assert [record["score"] for record in read_strict(tmp_path / "ours/7.jsonl")] == [1.0, 0.1, -0.5]


def test_masks_and_scores_are_read_by_the_thread_that_writes(trainer, proto, monkeypatch):
    asked = []
    for name in ("mask_of_prompts", "mask_of_responses", "row_sums"):
        read = getattr(verl_v0, name)
        monkeypatch.setattr(
            verl_v0,
            name,
            lambda *given, name=name, read=read: asked.append((name, threading.current_thread().name)) or read(*given),
        )
    ours = trainer()
    ours._log_rollout_data(proto, {}, {}, "")
    finish(ours)
    assert sorted(asked) == [
        (name, "verl-rollout-dump") for name in ("mask_of_prompts", "mask_of_responses", "row_sums")
    ]


def test_validation_goes_through_its_own_hook(trainer, tmp_path, read_strict):
    ours = trainer(path={"validation_dir": str(tmp_path / "val")})
    scores = [1.0, 0.0]
    ours._dump_generations(
        inputs=["a", "b"],
        outputs=["c", "d"],
        gts=["1", None],
        scores=scores,
        reward_extra_infos_dict={"reward": scores, "acc": [np.bool_(True), None]},
        dump_path=str(tmp_path / "val"),
    )
    finish(ours)
    assert read_strict(tmp_path / "val/7.jsonl") == [
        {"input": "a", "output": "c", "gts": "1", "score": 1.0, "step": 7, "reward": 1.0, "acc": True},
        {"input": "b", "output": "d", "gts": None, "score": 0.0, "step": 7, "reward": 0.0, "acc": None},
    ]


def test_without_a_dump_verls_own_code_runs(trainer, proto, tmp_path):
    stock = trainer(enabled=False)
    assert stock._rollout_dump is None
    stock._log_rollout_data(proto, {"n": np.array([1, 2, 3])}, {}, str(tmp_path / "stock"))
    stock._shutdown_dump_executor()
    assert len((tmp_path / "stock/7.jsonl").read_text().splitlines()) >= 3
    assert not (tmp_path / "stock/run.json").exists()


def test_a_batch_that_cannot_be_read_does_not_end_the_training(trainer, proto, tmp_path, caplog):
    ours = trainer()
    del proto.batch["token_level_scores"]
    with caplog.at_level(logging.ERROR):
        ours._log_rollout_data(proto, {}, {}, "")
    assert "the rollouts of step 7 cannot be read (KeyError" in caplog.text
    with pytest.raises(KeyError):
        trainer(tmp_path / "strict", on_error="raise")._log_rollout_data(proto, {}, {}, "")


@pytest.mark.parametrize(
    ("algorithm", "outcomes"),
    [
        ({}, None),
        ({"rollout_correction": None, "filter_groups": {"enable": False}}, None),
        ({"rollout_correction": {"rollout_rs": None, "rollout_is": "token"}}, None),
        ({"rollout_correction": {"rollout_rs": "token_k1", "bypass_mode": True}}, None),
        ({"rollout_correction": {"rollout_rs": "token_k1", "bypass_mode": False}}, ["trained"] * 3),
        ({"filter_groups": {"enable": True, "metric": "acc"}}, ["trained"] * 3),
    ],
)
def test_the_config_says_whether_records_have_an_outcome(trainer, proto, tmp_path, read_strict, algorithm, outcomes):
    ours = trainer()
    ours.config["algorithm"] = algorithm
    ours._log_rollout_data(proto, {}, {}, "")
    finish(ours)
    found = [record.get("outcome") for record in read_strict(tmp_path / "ours/7.jsonl")]
    assert found == (outcomes or [None] * 3)
