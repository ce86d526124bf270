"""Run in a process of its own with one release of verl on its path: dumps through the release's own classes.

Arguments: the directory to dump to. Prints a line per seam that was tried.
"""

import importlib
import sys
import types
from pathlib import Path

import numpy as np
import torch
import transformers

# verl 0.6.1 imports a name that transformers 5 has dropped; nothing here uses it.
if not hasattr(transformers, "AutoModelForVision2Seq"):
    transformers.AutoModelForVision2Seq = transformers.AutoModelForImageTextToText

import verl
from verl import DataProto


class Letters:
    """A tokenizer of the letters a to z; 0 is its padding."""

    pad_token_id = 0

    def decode(self, ids, skip_special_tokens=True):
        return "".join(chr(96 + int(i)) for i in ids if i)

    def batch_decode(self, rows, skip_special_tokens=True):
        return [self.decode(row) for row in rows]


def trainer_of(module, name, directory):
    """A trainer of the release, built without its workers."""
    cls = getattr(importlib.import_module(module), name)
    trainer = object.__new__(getattr(cls, "__ray_metadata__", types.SimpleNamespace(modified_class=cls)).modified_class)
    trainer.tokenizer, trainer.global_steps = Letters(), 1
    trainer.config = {
        "trainer": {"rollout_data_dir": str(directory), "validation_data_dir": str(directory)},
        "rollout_dump": {"on_error": "raise"},
    }
    return trainer


def dump_v0(trainer):
    ids = torch.tensor([[0, 1, 2], [3, 4, 5]])
    batch = DataProto.from_dict(
        tensors={
            "prompts": ids,
            "responses": ids.flip(1),
            "attention_mask": torch.cat([ids != 0, ids.flip(1) != 0], dim=1).long(),
            "response_mask": (ids.flip(1) != 0).long(),
            "token_level_scores": torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.5]]),
        },
        non_tensors={
            "uid": np.array(["u", "v"], dtype=object),
            "reward_model": np.array([{"ground_truth": "g"}, {}], dtype=object),
        },
    )
    trainer._log_rollout_data(batch, {"acc": np.array([np.True_, np.False_])}, {}, "ignored")


def dump_v1(trainer):
    import tensordict
    import transfer_queue

    def fetch(keys, partition_id, select_fields):
        assert keys == ["u_0_2", "u_0_10"] and partition_id == "train"
        rows = [
            {"prompts": [1, 2], "responses": [2, 1], "rm_scores": [0.0, 1.0], "info": {"acc": True}},
            {"prompts": [3, 4, 5], "responses": [5, 4, 3], "rm_scores": [0.0, 0.0, 0.5], "info": {"acc": False}},
        ]
        nested = {
            name: torch.nested.as_nested_tensor([torch.tensor(row[name]) for row in rows], layout=torch.jagged)
            for name in ("prompts", "responses", "rm_scores")
        }
        others = {
            "reward_model": [{"ground_truth": "g"}, {}],
            "extra_fields": [{"reward_extra_info": row["info"]} for row in rows],
        }
        stacks = {name: tensordict.NonTensorStack(*values) for name, values in others.items()}
        return tensordict.TensorDict({**nested, **stacks}, batch_size=[2])

    transfer_queue.kv_batch_get = fetch
    tags = [{}, {}, {"is_padding": True}]
    batch = types.SimpleNamespace(keys=["u_0_10", "u_0_2", "u_0_3"], tags=tags, partition_id="train")
    trainer._log_rollout_data(batch, {}, "ignored")


TRAINERS = {
    "v0": ("verl.trainer.ppo.ray_trainer", "RayPPOTrainer", dump_v0),
    "v1": ("verl.trainer.ppo.v1.trainer_sync", "PPOTrainerSync", dump_v1),
    "colocate_async": ("verl.trainer.ppo.v1.trainer_colocate_async", "PPOTrainerColocateAsync", dump_v1),
    "separate_async": ("verl.trainer.ppo.v1.trainer_separate_async", "PPOTrainerSeparateAsync", dump_v1),
    "sync": ("verl.trainer.main_ppo_sync", "PPOTrainer", dump_v1),
    "separation": ("verl.experimental.separation.ray_trainer", "SeparateRayPPOTrainer", dump_v0),
    "one_step_off": ("verl.experimental.one_step_off_policy.ray_trainer", "OneStepOffRayTrainer", dump_v0),
    "fully_async": ("verl.experimental.fully_async_policy.fully_async_trainer", "FullyAsyncTrainer", dump_v0),
}


def exists(module):
    return (Path(verl.__file__).parent.parent / (module.replace(".", "/") + ".py")).is_file()


def main(directory):
    for name, (module, cls, dump) in TRAINERS.items():
        if not exists(module):
            continue
        trainer = trainer_of(module, cls, Path(directory) / name)
        dump(trainer)
        trainer._dump_generations(["a"], ["b"], ["g"], [1.0], {"reward": [1.0]}, str(Path(directory) / name))
        assert hasattr(type(trainer).fit, "__wrapped__"), type(trainer).fit
        trainer._rollout_dump.hooks.fire_train_end()
        print(name, flush=True)


main(sys.argv[1])
