"""`RolloutDumpCallback`: the callback that writes every rollout.

Failures. `from_config` raises what keeps a dump from starting. Later, nothing is raised under `on_error: warn`: a
failure is logged once per kind, counted, and reported again at the end. Under `on_error: raise`, `on_rollout_end`
raises the failure of its own step as `DumpError`; for that it waits until the step is written.

A callback can be pickled. It travels with its config and tokenizer, without its thread and files, and starts a dump of
its own at its first batch (which is refused while the original still writes to the same directory).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol

from verl_rollout_dump.batch.rollout_batch import RolloutBatch
from verl_rollout_dump.batch.source import RolloutSource
from verl_rollout_dump.config import ConfigError, DumpConfig, load_config
from verl_rollout_dump.config.schema import Mode
from verl_rollout_dump.dump.local_dump import LocalDump
from verl_rollout_dump.dump.report import DumpReport
from verl_rollout_dump.dump.shutdown import Endable, open_dumps
from verl_rollout_dump.hooks import RolloutCallback
from verl_rollout_dump.storage.attempts import State


class _OpenDump(Endable, Protocol):
    """A started dump: of this process, or of Ray actors."""

    tokenizer: Any

    @property
    def report(self) -> DumpReport:
        """What was done up to now: a copy."""

    def accept(self, batch: RolloutBatch) -> None:
        """Take a batch. Raises `DumpError` under `on_error: raise`."""

    def accept_from(self, source: RolloutSource) -> None:
        """Take a batch that lies elsewhere. Raises `DumpError` under `on_error: raise`."""


def _ray_dump(config: DumpConfig, tokenizer: Any) -> _OpenDump:
    """Start the writing actors."""
    from verl_rollout_dump.dump.ray_dump import RayDump  # brings Ray in

    return RayDump(config, tokenizer)


_DUMPS: dict[Mode, Callable[[DumpConfig, Any], _OpenDump]] = {
    Mode.background: LocalDump,
    Mode.inline: LocalDump,
    Mode.ray: _ray_dump,
}


class RolloutDumpCallback(RolloutCallback):
    """Writes every rollout that it receives as JSONL, one file per step, and counts what it did in `report`."""

    def __init__(self, config: DumpConfig, tokenizer: Any = None) -> None:
        """Start the dump: make and lock the directories. Raises `DumpError` where that fails.

        `tokenizer` turns token ids into text; it may be set later, before the first batch of ids comes.
        """
        self.config = config
        self._tokenizer = tokenizer
        self._started: _OpenDump | None = None
        self._start()

    @classmethod
    def from_config(cls, config: Any = None, tokenizer: Any = None) -> RolloutDumpCallback:
        """Start a dump from any part of the `rollout_dump` node, or from a trainer's whole config.

        Raises `ConfigError` for a mistake in the config, `DumpError` where the directory cannot be used.
        """
        checked = load_config(config)
        if checked.enabled and checked.path.dir is None and checked.path.validation_dir is None:
            raise ConfigError(
                ["rollout_dump.path.dir is not set, so nothing can be dumped. Set it, or set enabled: false"]
            )
        return cls(checked, tokenizer)

    @property
    def tokenizer(self) -> Any:
        """The tokenizer that turns token ids into text, or None."""
        return self._tokenizer

    @tokenizer.setter
    def tokenizer(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        if self._started is not None:
            self._started.tokenizer = tokenizer

    @property
    def report(self) -> DumpReport:
        """What was written, converted, dropped and failed up to now: a copy."""
        return self._started.report if self._started is not None else DumpReport()

    def on_rollout_end(self, batch: RolloutBatch) -> None:
        """Dump the rollouts of a training step, or of a validation where `batch.split` says so."""
        self._start().accept(batch)

    def on_validation_end(self, batch: RolloutBatch) -> None:
        """Dump the rollouts of a validation."""
        self._start().accept(batch if batch.split == "validation" else replace(batch, split="validation"))

    def on_rollouts_at(self, source: RolloutSource) -> None:
        """Dump the rollouts of a training step that lie elsewhere; under `writer.mode=ray` the actors read them."""
        self._start().accept_from(source)

    def on_train_end(self) -> None:
        """Write what is pending, and end the attempt as complete."""
        self.close()

    def on_train_failed(self, error: BaseException) -> None:
        """Write what is pending, and end the attempt as failed."""
        self._end("failed")

    def flush(self, seconds: float | None = None) -> None:
        """Wait until all batches that were handed over are in files.

        `seconds` bounds the wait; None: `writer.timeout_seconds`. Raises `DumpError` under `on_error: raise` if a step
        failed, or the wait reached its bound.
        """
        if self._started is not None:
            self._started.flush(seconds)

    def close(self) -> None:
        """Flush and stop; end the attempt as complete. A second call does nothing."""
        self._end("complete")

    def __enter__(self) -> RolloutDumpCallback:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end("complete" if error is None else "failed")

    def __getstate__(self) -> dict[str, Any]:
        return {"config": self.config, "_tokenizer": self._tokenizer, "_started": None}

    def _start(self) -> _OpenDump:
        """Return the dump, and start it if the callback has travelled between processes."""
        if self._started is None:
            self._started = _DUMPS[self.config.writer.mode](self.config, self._tokenizer)
            open_dumps.add(self._started, self.config.path)
        return self._started

    def _end(self, state: State) -> None:
        if self._started is not None:
            try:
                self._started.end(state)
            finally:
                open_dumps.remove(self._started)
