"""TRL's `GRPOTrainer` and `RLOOTrainer`: two lines, and their rollouts reach every callback.


    dump_rollouts(trainer, {"path": {"dir": "out/rollouts", "validation_dir": "out/validation"}})
    trainer.train()

In a launch of several processes every one of them makes the call; the main one writes what all have generated.
The config is any part of the `rollout_dump` node, or a whole Hydra config that has it.

A record is the contract's. `step` counts optimizer steps from 1: the first one that trains on the rollouts (a step
that reuses older rollouts has no file). `input` and `output` are the text of the token ids that the model saw and
wrote; `score` is the weighted sum of the rewards. Extras: each reward function's value under the function's name,
as TRL holds it (float32; null where the function returned None), `advantage`, what reward functions gave to
`log_extra`, the messages of conversations as `prompt` and `completion`, and the other columns of the dataset.

An evaluation becomes one `on_validation_end`, at the step that it follows; where there are several evaluation sets,
`eval_dataset` names them. On several processes accelerate fills the last batch of an evaluation with samples from
the start; their rollouts are generated, and counted by TRL, like all others, and are in the file.

The dump ends when `train()` returns or raises; what comes later needs another call of `dump_rollouts`.
TRL itself is not imported: whoever has a trainer has it. Keep it in another environment than verl 0.9, which imports
`trl.experimental.ppo` wherever TRL is installed, and so does not start beside TRL 1.14 or later.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from verl_rollout_dump.config import ConfigError, load_config
from verl_rollout_dump.errors import DumpError
from verl_rollout_dump.integrations.open_hooks import open_hooks
from verl_rollout_dump.integrations.trl.batches import Scored
from verl_rollout_dump.integrations.trl.feed import RolloutFeed

GROUND_TRUTHS = ("ground_truth", "answer", "solution")
ATTRIBUTE = "_rollout_dump"  # where a trainer keeps its `RolloutFeed`
ENDED = "the dump ended with the training: what comes now is not dumped, unless dump_rollouts is called again before"


def dump_rollouts(trainer: Any, config: Any = None, ground_truth: str | Iterable[str] = GROUND_TRUTHS) -> None:
    """Dump the rollouts of the next `trainer.train()`, evaluations before it and in it included.

    `ground_truth` names the column of the dataset that becomes `gts`; of several names, the first that is there.
    Raises `ConfigError` for a mistake in the config, a column that is not there, or a trainer whose methods are
    not as we know them; `DumpError` where the directory cannot be used, or the trainer is dumped already.
    """
    earlier: RolloutFeed | None = getattr(trainer, ATTRIBUTE, None)
    if earlier is not None and not earlier.ended:
        raise DumpError("the rollouts of this trainer are dumped already. Call dump_rollouts once for each training")
    check_trainer(trainer)
    check_column(trainer, ground_truth)
    checked = load_config(config)
    if not checked.enabled:
        return
    names = (ground_truth,) if isinstance(ground_truth, str) else tuple(ground_truth)
    tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
    hooks = open_hooks(checked, tokenizer) if trainer.accelerator.is_main_process else None
    setattr(trainer, ATTRIBUTE, RolloutFeed(trainer, checked, hooks, names))
    if earlier is None:
        for method, wrap in WRAPPERS.items():
            setattr(trainer, method, wrap(trainer, getattr(trainer, method)))
        trainer.add_callback(step_end_callback(trainer))


def check_trainer(trainer: Any) -> None:
    """Refuse a trainer that is not one of TRL's, or whose methods are not as we know them."""
    for method, parameters in PARAMETERS.items():
        found = getattr(type(trainer), method, None)
        takes = tuple(inspect.signature(found).parameters) if found is not None else None
        if takes != parameters:
            raise ConfigError(
                [
                    f"{type(trainer).__name__}.{method} "
                    f"{'is not there' if takes is None else f'takes {takes}'}, expected {parameters}. dump_rollouts "
                    "takes TRL's GRPOTrainer and RLOOTrainer, and was made for trl 1.16. For any other trainer, build "
                    "a RolloutBatch and hand it to RolloutDumpCallback"
                ]
            )


def check_column(trainer: Any, ground_truth: str | Iterable[str]) -> None:
    """Refuse a ground truth by one name that the dataset does not have, where the dataset can tell."""
    columns = getattr(trainer.train_dataset, "column_names", None)
    if isinstance(ground_truth, str) and columns and ground_truth not in columns:
        raise ConfigError([f"ground_truth={ground_truth!r} is no column of the dataset. It has: {', '.join(columns)}"])


def feed_of(trainer: Any) -> RolloutFeed:
    """Return what we keep on a trainer."""
    feed: RolloutFeed = getattr(trainer, ATTRIBUTE)
    return feed


Method = Callable[..., Any]


def keep_scored(trainer: Any, original: Method) -> Method:
    """Wrap `_calculate_rewards`: keep what it was given and what it returned."""

    @functools.wraps(original)
    def calculate_rewards(inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
        rewards = original(inputs, prompts, completions, completion_ids_list)
        feed = feed_of(trainer)
        if not feed.ended:
            # trl empties this one after it has gathered it; releases before 1.0 have none
            logged = {name: list(values) for name, values in getattr(trainer, "_pending_extra_logs", {}).items()}
            feed.scored = Scored(inputs, prompts, completions, completion_ids_list, rewards, logged)
        return rewards

    return calculate_rewards


def take_generated(trainer: Any, original: Method) -> Method:
    """Wrap `_generate_and_score_completions`: take the rollouts before they are shuffled and split for the loss."""

    @functools.wraps(original)
    def generate_and_score(inputs: Any) -> Any:
        output = original(inputs)
        feed = feed_of(trainer)
        if not feed.ended:
            feed.add(output)
        return output

    return generate_and_score


def tell_validation(trainer: Any, original: Method) -> Method:
    """Wrap `evaluate`: whatever way the outermost call ends, what it generated is told of."""

    @functools.wraps(original)
    def evaluate(*args: Any, **kwargs: Any) -> Any:
        feed = feed_of(trainer)
        if feed.ended:
            if feed.config.path.validation_dir is not None:
                feed.say_once(ENDED)
            return original(*args, **kwargs)
        feed.evaluating.append(kwargs.get("metric_key_prefix", "eval"))
        try:
            return original(*args, **kwargs)
        finally:
            feed.evaluating.pop()
            if not feed.evaluating:
                feed.tell("validation")

    return evaluate


def end_with_training(trainer: Any, original: Method) -> Method:
    """Wrap `train`: whatever way it ends, what was handed over is written before it returns."""

    @functools.wraps(original)
    def train(*args: Any, **kwargs: Any) -> Any:
        feed = feed_of(trainer)
        if feed.ended:
            feed.say_once(ENDED)
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            feed.end("fire_train_failed", error)
            raise
        feed.end("fire_train_end")
        return result

    return train


def step_end_callback(trainer: Any) -> Any:
    """Return a callback of transformers that tells of a step's rollouts when the step is over.

    Not before: with few `steps_per_generation`, one step trains on several generations.
    """
    from transformers import TrainerCallback

    class StepEnd(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            feed_of(trainer).tell("train")

    return StepEnd()


PARAMETERS = {
    "_calculate_rewards": ("self", "inputs", "prompts", "completions", "completion_ids_list"),
    "_generate_and_score_completions": ("self", "inputs"),
}
WRAPPERS: dict[str, Callable[[Any, Method], Method]] = {
    "_calculate_rewards": keep_scored,
    "_generate_and_score_completions": take_generated,
    "evaluate": tell_validation,
    "train": end_with_training,
}
