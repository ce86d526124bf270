"""`dump_rollouts`: dumps the rollouts of TRL's `GRPOTrainer` and `RLOOTrainer`.

    dump_rollouts(trainer, {"path": {"dir": "out/rollouts", "validation_dir": "out/validation"}})
    trainer.train()

With several processes, each of them calls it; the main process writes the rollouts of all.
The config is any part of the `rollout_dump` node, or a whole Hydra config that has it.

`step` counts optimizer steps from 1: the first one that trains on the rollouts (a step that reuses older rollouts has
no file). `input` and `output` are the decoded token ids of the prompt and of the response; `score` is the weighted
sum of the rewards. The extras are each reward function's value under the function's name (float32; null where the
function returned None), `advantage`, what reward functions passed to `log_extra`, the messages of conversations as
`prompt` and `completion`, and the other columns of the dataset.

Each evaluation is one `on_validation_end`, at the step that it follows; with several evaluation datasets,
`eval_dataset` names the dataset. With several processes accelerate fills the last batch of an evaluation with samples
from its start. TRL generates and counts these rollouts like all others, and they are in the file.

The dump ends when `train()` returns or raises; call `dump_rollouts` again for another training. Do not install TRL
1.14 or later beside verl 0.9: verl imports `trl.experimental.ppo`, which these releases do not have, and fails.
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

_GROUND_TRUTHS = ("ground_truth", "answer", "solution")
_ATTRIBUTE = "_rollout_dump"  # of a trainer: its `RolloutFeed`
_ENDED = "these rollouts are not dumped: the dump ended with the training. Call dump_rollouts before each training"


def dump_rollouts(trainer: Any, config: Any = None, ground_truth: str | Iterable[str] = _GROUND_TRUTHS) -> None:
    """Dump the rollouts of the next `trainer.train()`, evaluations before it and in it included.

    `ground_truth` names the column of the dataset that becomes `gts`; of several names, the first that the dataset
    has. Raises `ConfigError` for a mistake in the config, a missing column, or a trainer with other methods than those
    of TRL's trainers; `DumpError` if the directory cannot be used, or the trainer is dumped already.
    """
    earlier: RolloutFeed | None = getattr(trainer, _ATTRIBUTE, None)
    if earlier is not None and not earlier.ended:
        raise DumpError("the rollouts of this trainer are dumped already. Call dump_rollouts once for each training")
    _check_trainer(trainer)
    _check_column(trainer, ground_truth)
    checked = load_config(config)
    if not checked.enabled:
        return
    names = (ground_truth,) if isinstance(ground_truth, str) else tuple(ground_truth)
    tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
    hooks = open_hooks(checked, tokenizer) if trainer.accelerator.is_main_process else None
    setattr(trainer, _ATTRIBUTE, RolloutFeed(trainer, checked, hooks, names))
    if earlier is None:
        for method, wrap in _WRAPPERS.items():
            setattr(trainer, method, wrap(trainer, getattr(trainer, method)))
        trainer.add_callback(_step_end_callback(trainer))


def _check_trainer(trainer: Any) -> None:
    """Raise `ConfigError` for a trainer without the methods of TRL's trainers, or with other parameters."""
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


def _check_column(trainer: Any, ground_truth: str | Iterable[str]) -> None:
    """Raise `ConfigError` for a single `ground_truth` that is not among the known columns of the dataset."""
    columns = getattr(trainer.train_dataset, "column_names", None)
    if isinstance(ground_truth, str) and columns and ground_truth not in columns:
        raise ConfigError(
            [f"ground_truth={ground_truth!r} is not a column of the dataset. Its columns: {', '.join(columns)}"]
        )


def _feed_of(trainer: Any) -> RolloutFeed:
    """Return the feed of a trainer."""
    feed: RolloutFeed = getattr(trainer, _ATTRIBUTE)
    return feed


_Method = Callable[..., Any]


def _keep_scored(trainer: Any, original: _Method) -> _Method:
    """Wrap `_calculate_rewards`: keep what it was given and what it returned."""

    @functools.wraps(original)
    def calculate_rewards(inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
        rewards = original(inputs, prompts, completions, completion_ids_list)
        feed = _feed_of(trainer)
        if not feed.ended:
            # TRL empties this after gathering it; releases before 1.0 do not have it
            logged = {name: list(values) for name, values in getattr(trainer, "_pending_extra_logs", {}).items()}
            feed.scored = Scored(inputs, prompts, completions, completion_ids_list, rewards, logged)
        return rewards

    return calculate_rewards


def _take_generated(trainer: Any, original: _Method) -> _Method:
    """Wrap `_generate_and_score_completions`: collect the rollouts before they are shuffled and split for the loss."""

    @functools.wraps(original)
    def generate_and_score(inputs: Any) -> Any:
        output = original(inputs)
        feed = _feed_of(trainer)
        if not feed.ended:
            feed.add(output)
        return output

    return generate_and_score


def _tell_validation(trainer: Any, original: _Method) -> _Method:
    """Wrap `evaluate`: however the outermost call ends, its rollouts are passed to the hooks."""

    @functools.wraps(original)
    def evaluate(*args: Any, **kwargs: Any) -> Any:
        feed = _feed_of(trainer)
        if feed.ended:
            if feed.config.path.validation_dir is not None:
                feed.say_once(_ENDED)
            return original(*args, **kwargs)
        feed.evaluating.append(kwargs.get("metric_key_prefix", "eval"))
        try:
            return original(*args, **kwargs)
        finally:
            feed.evaluating.pop()
            if not feed.evaluating:
                feed.tell("validation")

    return evaluate


def _end_with_training(trainer: Any, original: _Method) -> _Method:
    """Wrap `train`: however it ends, its rollouts are written before it returns."""

    @functools.wraps(original)
    def train(*args: Any, **kwargs: Any) -> Any:
        feed = _feed_of(trainer)
        if feed.ended:
            feed.say_once(_ENDED)
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            feed.end("fire_train_failed", error)
            raise
        feed.end("fire_train_end")
        return result

    return train


def _step_end_callback(trainer: Any) -> Any:
    """Return a callback of transformers that passes a step's rollouts to the hooks at the end of the step.

    Not earlier, since with few `steps_per_generation` one step trains on several generations.
    """
    from transformers import TrainerCallback

    class StepEnd(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            _feed_of(trainer).tell("train")

    return StepEnd()


PARAMETERS = {
    "_calculate_rewards": ("self", "inputs", "prompts", "completions", "completion_ids_list"),
    "_generate_and_score_completions": ("self", "inputs"),
}
_WRAPPERS: dict[str, Callable[[Any, _Method], _Method]] = {
    "_calculate_rewards": _keep_scored,
    "_generate_and_score_completions": _take_generated,
    "evaluate": _tell_validation,
    "train": _end_with_training,
}
