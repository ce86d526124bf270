"""What takes the place of verl's methods: each function here wraps one kind of method.

A trainer carries its dump in an attribute. It is made when the trainer is built (so that a directory that cannot be
written to ends the run before models are loaded), or, where the plugin came too late for that (`external_lib`) or the
trainer does not call its base class (fully_async), at its first use.
"""

from __future__ import annotations

import functools
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from verl_rollout_dump.batch.rollout_batch import RolloutBatch
from verl_rollout_dump.config import DumpConfig, load_config
from verl_rollout_dump.config.schema import OnError
from verl_rollout_dump.hooks import DUMP, RolloutCallback, RolloutHooks, build_callbacks
from verl_rollout_dump.integrations.verl.common import validation_rollouts
from verl_rollout_dump.integrations.verl.v1 import transfer_queue_source

logger = logging.getLogger(__name__)

ATTRIBUTE = "_rollout_dump"  # of a trainer: its `TrainerDump`, or None where it has none
MARK = "_is_rollout_dump_seam"  # of a method: it is ours

Method = Callable[..., Any]
Adapter = Callable[..., RolloutBatch]


@dataclass
class TrainerDump:
    """What we keep on a trainer: its checked config, and the callbacks that its hooks reach."""

    config: DumpConfig
    hooks: RolloutHooks

    @property
    def only_callback(self) -> Any:
        """Our own callback, where there is no other; else None."""
        found = self.hooks.callbacks
        return found[0] if len(found) == 1 and hasattr(found[0], "on_rollouts_at") else None


def dump_of(trainer: Any) -> TrainerDump | None:
    """Return a trainer's dump, started if it is not yet; None: its config asks for none.

    Raises `ConfigError` and `DumpError`, which end the run.
    """
    if ATTRIBUTE not in vars(trainer):
        setattr(trainer, ATTRIBUTE, start(trainer.config))
    dump: TrainerDump | None = vars(trainer)[ATTRIBUTE]
    return dump


def start(config: Any) -> TrainerDump | None:
    """Start what the config of a trainer asks for; None: nothing, and verl's own code stays in charge."""
    from verl_rollout_dump.dump.callback import (
        RolloutDumpCallback,
    )  # brings the whole dump in, which most processes need not

    checked = load_config(config)
    if not checked.enabled or (checked.path.dir is None and checked.path.validation_dir is None):
        return None
    others = build_callbacks(checked.callbacks)
    dump = [RolloutDumpCallback(checked)] if DUMP in checked.callbacks else []
    return TrainerDump(checked, RolloutHooks([*dump, *others]))


def is_hooked(trainer: Any) -> bool:
    """Whether this trainer's rollouts come to us: its `_log_rollout_data` is ours, not a subclass's own."""
    return getattr(type(trainer)._log_rollout_data, MARK, False)


def start_dump(original: Method) -> Method:
    """Wrap `__init__`: start the dump as soon as the trainer has its config."""

    @functools.wraps(original)
    def init(trainer: Any, *args: Any, **kwargs: Any) -> None:
        original(trainer, *args, **kwargs)
        if is_hooked(trainer):
            dump_of(trainer)

    return init


def end_dump(original: Method) -> Method:
    """Wrap `fit`: whatever way it ends, what was handed over is written before it returns."""

    @functools.wraps(original)
    def fit(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        with telling_of_the_end(trainer):
            return original(trainer, *args, **kwargs)

    return fit


def end_dump_async(original: Callable[..., Awaitable[Any]]) -> Method:
    """Wrap a `fit` that is a coroutine."""

    @functools.wraps(original)
    async def fit(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        with telling_of_the_end(trainer):
            return await original(trainer, *args, **kwargs)

    return fit


@contextmanager
def telling_of_the_end(trainer: Any) -> Iterator[None]:
    """Tell a trainer's callbacks how its training loop ended."""
    hooks = hooks_of(trainer)
    try:
        yield
    except BaseException as error:
        hooks.fire_train_failed(error)
        raise
    hooks.fire_train_end()


def hooks_of(trainer: Any) -> RolloutHooks:
    """Return the hooks of a trainer; without callbacks where it has no dump."""
    dump = dump_of(trainer) if is_hooked(trainer) else None
    return dump.hooks if dump else RolloutHooks([])


def fire_rollouts(adapter: Adapter) -> Callable[[Method], Method]:
    """Wrap `_log_rollout_data(self, batch, [extras,] timing_raw, rollout_data_dir)`: fire `on_rollout_end` instead."""

    def wrap(original: Method) -> Method:
        names = tuple(inspect.signature(original).parameters)

        @functools.wraps(original)
        def log_rollout_data(trainer: Any, *args: Any, **kwargs: Any) -> None:
            dump = dump_of(trainer)
            if dump is None or dump.config.path.dir is None:
                original(trainer, *args, **kwargs)
                return
            given = dict(zip(names, (trainer, *args), strict=False)) | kwargs
            columns = {name: given[name] for name in ("batch", "reward_extra_infos_dict") if name in given}
            started = time.perf_counter()
            read = functools.partial(adapter, trainer, dump.config, **columns)
            if not read_by_dump(trainer, dump, given["batch"]):
                fire(trainer, dump, dump.hooks.fire_rollout_end, read)
            # the name under which verl's own dump shows among the step's timings
            given["timing_raw"]["dump_rollout_generations"] = time.perf_counter() - started

        setattr(log_rollout_data, MARK, True)
        return log_rollout_data

    return wrap


def read_by_dump(trainer: Any, dump: TrainerDump, batch: Any) -> bool:
    """Let the dump read a v1 batch itself, if it wants the step at all; False: the batch has to be read here.

    It has to where other callbacks want to see it, and where it is v0's, which is here already. The Ray actors of
    `writer.mode=ray` read each their part.
    """
    callback = dump.only_callback
    if callback is None or not hasattr(batch, "partition_id"):
        return False
    give_tokenizer(callback, trainer)
    callback.on_rollouts_at(transfer_queue_source(trainer, batch))
    return True


def give_tokenizer(callback: RolloutCallback, trainer: Any) -> None:
    """Give the dump the trainer's tokenizer, which v1 makes only after the dump has been started."""
    if getattr(callback, "tokenizer", trainer.tokenizer) is None:
        callback.tokenizer = trainer.tokenizer  # type: ignore[attr-defined]


def fire_validation(original: Method) -> Method:
    """Wrap `_dump_generations`: validation alone still comes here; fire `on_validation_end` instead."""

    @functools.wraps(original)
    def dump_generations(
        trainer: Any, inputs: Any, outputs: Any, gts: Any, scores: Any, reward_extra_infos_dict: Any, dump_path: Any
    ) -> None:
        dump = dump_of(trainer)
        if dump is None or dump.config.path.validation_dir is None:
            original(trainer, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path)
            return
        columns = (inputs, outputs, gts, scores, reward_extra_infos_dict)
        read = functools.partial(validation_rollouts, trainer, dump.config, *columns)
        fire(trainer, dump, dump.hooks.fire_validation_end, read)

    return dump_generations


def fire(
    trainer: Any, dump: TrainerDump, hook: Callable[[RolloutBatch], None], read: Callable[[], RolloutBatch]
) -> None:
    """Read the trainer's rollouts and fire a hook. A fault in reading is handled as the dump's own would be."""
    for callback in dump.hooks.callbacks:
        give_tokenizer(callback, trainer)
    try:
        batch = read()
    except Exception as error:
        if dump.config.on_error is OnError["raise"]:
            raise
        logger.error(
            "the rollouts of step %s cannot be read (%s: %s), so they are not dumped; training goes on",
            trainer.global_steps,
            type(error).__name__,
            error,
            exc_info=error,
        )
        return
    hook(batch if dump.only_callback is not None else batch.complete())
