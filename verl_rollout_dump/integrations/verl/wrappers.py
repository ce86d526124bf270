"""What takes the place of verl's methods: each function here wraps one kind of method.

A trainer carries its dump in an attribute. The dump is started when the trainer is built, so that an unwritable
directory ends the run before models are loaded. It is started at its first use if the plugin came too late for that
(`external_lib`) or the trainer does not call its base class (fully_async).
"""

from __future__ import annotations

import functools
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from verl_rollout_dump.batch.rollout_batch import RolloutBatch
from verl_rollout_dump.config import DumpConfig, load_config
from verl_rollout_dump.config.schema import OnError
from verl_rollout_dump.config.urls import absolute
from verl_rollout_dump.hooks import RolloutHooks
from verl_rollout_dump.integrations.verl.common import TrainerAdapter, decoded_rollouts, split_of
from verl_rollout_dump.integrations.verl.driver_signals import listen

if TYPE_CHECKING:  # brings the whole dump in, which most Ray processes do not need
    from verl_rollout_dump.dump.callback import RolloutDumpCallback

logger = logging.getLogger(__name__)

ATTRIBUTE = "_rollout_dump"  # of a trainer: its `TrainerDump`, or None if its config asks for none
MARK = "_is_rollout_dump_seam"  # of a method: it is ours

Method = Callable[..., Any]
_COLUMNS: tuple[str, ...] = ("batch", "reward_extra_infos_dict")  # parameters that hold the rollouts


@dataclass
class TrainerDump:
    """What a trainer carries: its checked config, and the callbacks that its hooks reach."""

    config: DumpConfig
    hooks: RolloutHooks
    # Dumps of rollouts that the trainer wants in a directory of its own choice, by that directory.
    elsewhere: dict[str, RolloutDumpCallback] = field(default_factory=dict)

    @property
    def only_callback(self) -> RolloutDumpCallback | None:
        """The dump itself if there is no other callback; None if there is."""
        from verl_rollout_dump.dump.callback import RolloutDumpCallback

        callbacks = self.hooks.callbacks
        first = callbacks[0] if len(callbacks) == 1 else None
        return first if isinstance(first, RolloutDumpCallback) else None

    def dump_into(self, directory: str, tokenizer: Any) -> RolloutDumpCallback:
        """Return the dump of a directory that the config does not name, started if it is not yet."""
        from verl_rollout_dump.dump.callback import RolloutDumpCallback

        if directory not in self.elsewhere:
            path = replace(self.config.path, dir=directory, validation_dir=None)
            self.elsewhere[directory] = RolloutDumpCallback(replace(self.config, path=path), tokenizer)
        return self.elsewhere[directory]

    def fire_train_end(self) -> None:
        """Report to all callbacks that the training loop has returned."""
        RolloutHooks([*self.elsewhere.values()]).fire_train_end()
        self.hooks.fire_train_end()

    def fire_train_failed(self, error: BaseException) -> None:
        """Report to all callbacks that the training loop has raised."""
        RolloutHooks([*self.elsewhere.values()]).fire_train_failed(error)
        self.hooks.fire_train_failed(error)


def dump_of(trainer: Any) -> TrainerDump | None:
    """Return a trainer's dump, started if it is not yet; None if its config asks for none.

    Raises `ConfigError` and `DumpError`, which end the run.
    """
    if ATTRIBUTE not in vars(trainer):
        setattr(trainer, ATTRIBUTE, _start(trainer.config))
    dump: TrainerDump | None = vars(trainer)[ATTRIBUTE]
    return dump


def _start(config: Any) -> TrainerDump | None:
    """Start the dump that a trainer's config asks for; None if verl's own code stays in charge."""
    checked = load_config(config)
    if not checked.enabled or (checked.path.dir is None and checked.path.validation_dir is None):
        return None
    from verl_rollout_dump.integrations.open_hooks import open_hooks  # brings the whole dump in

    dump = TrainerDump(checked, open_hooks(checked))
    listen()
    return dump


def _is_hooked(trainer: Any) -> bool:
    """Return whether this trainer's rollouts reach us: its `_log_rollout_data` is ours, not a subclass's own."""
    return getattr(type(trainer)._log_rollout_data, MARK, False)


def start_dump(original: Method) -> Method:
    """Wrap `__init__`: start the dump as soon as the trainer has its config."""

    @functools.wraps(original)
    def init(trainer: Any, *args: Any, **kwargs: Any) -> None:
        original(trainer, *args, **kwargs)
        if _is_hooked(trainer):
            dump_of(trainer)

    return init


def end_dump(original: Method) -> Method:
    """Wrap `fit`: however it ends, what was handed over is written before it returns."""

    @functools.wraps(original)
    def fit(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        with _reporting_end(trainer):
            return original(trainer, *args, **kwargs)

    return fit


def end_dump_async(original: Callable[..., Awaitable[Any]]) -> Method:
    """Wrap a `fit` that is a coroutine."""

    @functools.wraps(original)
    async def fit(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        with _reporting_end(trainer):
            return await original(trainer, *args, **kwargs)

    return fit


@contextmanager
def _reporting_end(trainer: Any) -> Iterator[None]:
    """Report to a trainer's callbacks how its training loop ended."""
    dump = (dump_of(trainer) if _is_hooked(trainer) else None) or TrainerDump(DumpConfig(), RolloutHooks([]))
    try:
        yield
    except BaseException as error:
        dump.fire_train_failed(error)
        raise
    dump.fire_train_end()


def fire_rollouts(adapter: TrainerAdapter) -> Callable[[Method], Method]:
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
            columns = {name: given[name] for name in _COLUMNS if name in given}
            started = time.perf_counter()
            _fire_batch(trainer, dump, adapter, columns)
            # the name under which verl's own dump shows among the step's timings
            given["timing_raw"]["dump_rollout_generations"] = time.perf_counter() - started

        setattr(log_rollout_data, MARK, True)
        return log_rollout_data

    return wrap


def _fire_batch(trainer: Any, dump: TrainerDump, adapter: TrainerAdapter, columns: dict[str, Any]) -> None:
    """Fire `on_rollout_end`, or let the dump read the batch itself if nobody else wants to see it.

    The dump reads only the columns that it writes, and only the steps that it wants. Under `writer.mode=ray` each
    actor reads its own part.
    """
    dump.hooks.set_tokenizer(trainer.tokenizer)  # which v1 makes only after the dump has been started
    callback = dump.only_callback
    source = adapter.source(trainer, columns) if callback is not None else None
    if callback is not None and source is not None:
        callback.on_rollouts_at(source)
        return
    read = functools.partial(adapter.read, trainer, dump.config, columns)
    _fire(trainer, dump, dump.hooks.fire_rollout_end, read)


def fire_generations(original: Method) -> Method:
    """Wrap `_dump_generations`: validation comes here, and training rollouts that a trainer dumps by itself.

    The directory that it is given says which of the two it is; a directory that the config does not name gets a dump
    of its own.
    """

    @functools.wraps(original)
    def dump_generations(
        trainer: Any, inputs: Any, outputs: Any, gts: Any, scores: Any, reward_extra_infos_dict: Any, dump_path: Any
    ) -> None:
        dump = dump_of(trainer)
        if dump is None or not dump_path:
            original(trainer, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path)
            return
        dump.hooks.set_tokenizer(trainer.tokenizer)
        directory = absolute(str(dump_path))
        split = split_of(trainer, dump.config, directory)
        columns = (inputs, outputs, gts, scores, reward_extra_infos_dict)
        read = functools.partial(decoded_rollouts, trainer, split or "train", *columns)
        hooks = {
            "validation": dump.hooks.fire_validation_end,
            "train": dump.hooks.fire_rollout_end,
            None: lambda batch: dump.dump_into(directory, trainer.tokenizer).on_rollout_end(batch),
        }
        _fire(trainer, dump, hooks[split], read)

    return dump_generations


def _fire(
    trainer: Any, dump: TrainerDump, hook: Callable[[RolloutBatch], None], read: Callable[[], RolloutBatch]
) -> None:
    """Read the trainer's rollouts and fire a hook. A fault in reading is handled as the dump's own would be."""
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
