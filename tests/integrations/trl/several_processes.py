"""One process of a GRPO training of several, launched by torchrun: MODEL FOLDER."""

import json
import os
import sys
from pathlib import Path

from datasets import Dataset
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from verl_rollout_dump.integrations.trl import dump_rollouts

model, folder = sys.argv[1], Path(sys.argv[2])
returned = []


def length(prompts, completions, index, **_):
    values = [len(completion) / 7 for completion in completions]
    returned.append(list(zip(prompts, completions, index, values, strict=True)))
    return values


config = GRPOConfig(
    output_dir=str(folder / "checkpoints"),
    use_cpu=True,
    max_steps=2,
    per_device_train_batch_size=2,
    per_device_eval_batch_size=2,
    eval_strategy="steps",
    eval_steps=2,
    num_generations=2,
    max_completion_length=6,
    report_to="none",
    save_strategy="no",
    dataloader_pin_memory=False,
)


def questions(n):
    return Dataset.from_dict({"prompt": [f"{i} + {i} =" for i in range(n)], "index": list(range(n))})


trainer = GRPOTrainer(
    model=model,
    reward_funcs=length,
    args=config,
    train_dataset=questions(4),
    eval_dataset=questions(3),  # one batch and a half
    processing_class=AutoTokenizer.from_pretrained(model),
)
paths = {"dir": str(folder / "rollouts"), "validation_dir": str(folder / "validation")}
dump_rollouts(trainer, {"path": paths, "on_error": "raise"})
trainer.train()
(folder / f"returned-{os.environ['RANK']}.json").write_text(json.dumps(returned))
