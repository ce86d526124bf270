"""The hooks that a trainer fires, and the callbacks that listen.

A callback that raises stops neither the training nor the other callbacks: its error is logged with the traceback, and
the next callback runs. The one exception is `DumpError`, which a dump raises only if `on_error: raise` asks for it; it
is passed on after every callback has run. A callback whose construction raises fails the run at start.
"""

from __future__ import annotations

import logging
from abc import ABC
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from verl_rollout_dump.batch.rollout_batch import RolloutBatch
from verl_rollout_dump.config import ConfigError
from verl_rollout_dump.config.errors import nearest
from verl_rollout_dump.errors import DumpError

logger = logging.getLogger(__name__)

_ENTRY_POINT_GROUP = "verl_rollout_dump.callbacks"
DUMP = "dump"  # the name of the dump itself, which needs a config (`integrations.open_hooks`)


class RolloutCallback(ABC):  # noqa: B024  (every method may be left out)
    """Receives rollouts. Subclass it, override what you need, and register it by name.

    The methods run on the training thread, so they must return quickly. A batch belongs to the trainer: do not change
    it, and do not keep its lists and dicts.
    """

    # The trainer's tokenizer, set before the first batch arrives unless the callback has one already.
    tokenizer: Any = None

    def on_rollout_end(self, batch: RolloutBatch) -> None:  # noqa: B027
        """Called when all rollouts of a training step are generated and scored."""

    def on_validation_end(self, batch: RolloutBatch) -> None:  # noqa: B027
        """Called when a validation is over; `batch.split` is "validation"."""

    def on_train_end(self) -> None:  # noqa: B027
        """Called when the training loop has returned. This is the last call."""

    def on_train_failed(self, error: BaseException) -> None:
        """Called when the training loop has raised, in place of `on_train_end`, which it calls by default."""
        self.on_train_end()


_CallbackClass = TypeVar("_CallbackClass", bound=type[RolloutCallback])
_registered: dict[str, type[RolloutCallback]] = {}


def register_callback(name: str) -> Callable[[_CallbackClass], _CallbackClass]:
    """Register a subclass of `RolloutCallback` under a name, so that it runs in every trainer of this process.

    Used as a decorator. The class is built without arguments when a trainer starts. Raises `ValueError` if another
    class has the name (the same class again, from a reloaded module, replaces itself), and `TypeError` for anything
    but a subclass of `RolloutCallback`.
    """

    def register(cls: _CallbackClass) -> _CallbackClass:
        if not (isinstance(cls, type) and issubclass(cls, RolloutCallback)):
            raise TypeError(f"register_callback({name!r}) takes a subclass of RolloutCallback, got {cls!r}")
        taken = _registered.get(name)
        if name == DUMP or (taken is not None and taken.__qualname__ != cls.__qualname__):
            raise ValueError(f"the callback name {name!r} is taken by {taken or 'the dump itself'}; choose another")
        _registered[name] = cls
        return cls

    return register


def unregister_callback(name: str) -> None:
    """Remove a registered callback. Raises `KeyError` for an unknown name."""
    del _registered[name]


class RolloutHooks:
    """The callbacks of one trainer, in order. Each `fire_…` calls the method of the same name on all of them."""

    def __init__(self, callbacks: Sequence[RolloutCallback]) -> None:
        self.callbacks = list(callbacks)
        self._has_ended = False

    def set_tokenizer(self, tokenizer: Any) -> None:
        """Give the trainer's tokenizer to every callback that has none."""
        for callback in self.callbacks:
            if callback.tokenizer is None:
                callback.tokenizer = tokenizer

    def fire_rollout_end(self, batch: RolloutBatch) -> None:
        """Hand a training step's rollouts to all callbacks."""
        self._fire("on_rollout_end", batch)

    def fire_validation_end(self, batch: RolloutBatch) -> None:
        """Hand a validation's rollouts to all callbacks."""
        self._fire("on_validation_end", batch)

    def fire_train_end(self) -> None:
        """Report to all callbacks that the training loop has returned. Only the first end is reported."""
        self._fire_end("on_train_end")

    def fire_train_failed(self, error: BaseException) -> None:
        """Report to all callbacks that the training loop has raised. Only the first end is reported."""
        self._fire_end("on_train_failed", error)

    def _fire_end(self, event: str, *arguments: object) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._fire(event, *arguments)

    def _fire(self, event: str, *arguments: object) -> None:
        failed_dump: DumpError | None = None
        for callback in self.callbacks:
            try:
                getattr(callback, event)(*arguments)
            except DumpError as error:
                failed_dump = failed_dump or error
            except (Exception, SystemExit):  # `sys.exit()` in a callback must not end the training either
                logger.exception("callback %s failed in %s; training goes on", type(callback).__name__, event)
        if failed_dump is not None:
            raise failed_dump


def check_callbacks(names: Sequence[str]) -> None:
    """Raise `ConfigError` for a name in `rollout_dump.callbacks` that no installed package offers."""
    known = sorted({DUMP, *_offered(), *_registered})
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(
            [
                f"rollout_dump.callbacks names {', '.join(map(repr, unknown))}, which no installed package "
                f"offers as an entry point of the group {_ENTRY_POINT_GROUP}. Known: {', '.join(known)}."
                f"{nearest(unknown[0], known)}"
            ]
        )


def build_callbacks(names: Sequence[str]) -> list[RolloutCallback]:
    """Build the callbacks that run: those named (entry points), and those that this process registered.

    `names` is `rollout_dump.callbacks`; the dump itself is not built here. Raises `ConfigError` for a name that no
    installed package offers.
    """
    check_callbacks(names)
    offered = _offered()
    wanted = [name for name in names if name != DUMP and name not in _registered]
    classes = {name: offered[name].load() for name in wanted} | _registered
    return [cls() for cls in dict.fromkeys(classes.values())]


def _offered() -> dict[str, EntryPoint]:
    """Return the callbacks that installed packages offer, by name."""
    return {point.name: point for point in entry_points(group=_ENTRY_POINT_GROUP)}
