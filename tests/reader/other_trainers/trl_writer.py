"""Write completions with the `log` method of TRL's own GRPOTrainer, without a training.

The files beside this module are of TRL 1.16.0: `trl_writer.write(folder, REWARDS["one"])`.
"""

from collections import defaultdict
from types import SimpleNamespace

REWARDS = {
    "one": {"accuracy_reward": [1.0, 0.0, 1.0, 1.0]},
    "two": {"accuracy_reward": [1.0, 0.0, 1.0, 1.0], "format_reward": [0.5, 0.5, 0.0, None]},
}


def write(folder, rewards, monkeypatch):
    """Write `folder/completions/completions_00012.parquet` and return its folder."""
    from transformers import Trainer
    from trl.trainer import grpo_trainer

    trainer = object.__new__(grpo_trainer.GRPOTrainer)
    trainer.model = SimpleNamespace(training=True)
    trainer.accelerator = SimpleNamespace(is_main_process=True)
    trainer.state = SimpleNamespace(global_step=12)
    trainer.args = SimpleNamespace(output_dir=str(folder), report_to=[])
    trainer.log_completions, trainer.num_completions_to_print = True, 0
    trainer._metrics = {"train": defaultdict(list)}
    trainer._logs = {
        "prompt": ["2+2=", "2+2=", "3+3=", "3+3="],
        "completion": ["4", "5", "6", "6 "],
        "rewards": rewards,
        "advantages": [0.7, -0.7, 0.0, 0.0],
        "images": [],
        "extra": {},
    }
    monkeypatch.setattr(grpo_trainer, "print_prompt_completions_sample", lambda *arguments, **options: None)
    monkeypatch.setattr(Trainer, "log", lambda *arguments, **options: None)
    (folder / "completions").mkdir(parents=True)
    trainer.log({"loss": 1.0})
    return folder / "completions"
