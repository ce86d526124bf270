"""`RolloutDumpCallback`: the callback that writes every rollout.

A batch goes through: select fields -> snapshot -> hand over (these on the caller's thread), then decode and
encode -> write (in the background, unless `writer.mode` is inline).

Failures. What keeps a dump from starting is raised by `from_config`. Later, under `on_error: warn`, nothing is
raised: a failure is logged once per kind, counted, and told again at the end. Under `on_error: raise` it is raised
as `DumpError` by `on_rollout_end` of its own step; for that the call waits until the step is written.
"""

from __future__ import annotations

import atexit
import logging
import threading
import weakref
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from verl_rollout_dump.config import ConfigError, DumpConfig, load_config
from verl_rollout_dump.config.resolved import as_container
from verl_rollout_dump.config.schema import OnError
from verl_rollout_dump.decode import TextDecoder, text_decoder
from verl_rollout_dump.directory import DumpDirectory
from verl_rollout_dump.dispatch import DISPATCHES
from verl_rollout_dump.errors import DumpError
from verl_rollout_dump.fields import FieldNotes, select_fields
from verl_rollout_dump.hooks import RolloutCallback
from verl_rollout_dump.lines import LineEncoder
from verl_rollout_dump.report import DumpReport
from verl_rollout_dump.rollouts import BatchError, RolloutBatch
from verl_rollout_dump.run_record import State
from verl_rollout_dump.sampling import kept_rows
from verl_rollout_dump.serialization import ConversionReport, Serializer
from verl_rollout_dump.snapshot import StepSnapshot, TextField, take_snapshot

logger = logging.getLogger(__name__)

VALIDATION_FOLDER = "validation"


class RolloutDumpCallback(RolloutCallback):
    """Writes every rollout it is given as JSONL, one file per step, and says what it did in `report`."""

    def __init__(self, config: DumpConfig, tokenizer: Any = None) -> None:
        """Start the dump: make and lock the directories. Raises `DumpError` where that fails.

        `tokenizer` turns token ids into text; it may be set later, before the first batch of ids comes.
        """
        self.config = config
        self.tokenizer = tokenizer
        self._lock = threading.Lock()
        self._counts = DumpReport()
        self._conversions = ConversionReport()
        self._notes = FieldNotes()
        self._warned: set[tuple[str, ...]] = set()
        self._decoder: TextDecoder | None = None
        self._unraised: DumpError | None = None
        self._state: State = "running"
        self._serializer = Serializer(config.serialization)
        self._lines = LineEncoder(self._serializer, config.serialization.max_chars, self._text_decoder)
        self._directories = open_directories(config)
        self._dispatch = DISPATCHES[config.writer.mode](config.writer)
        self._at_exit = close_at_exit(self)

    @classmethod
    def from_config(cls, config: Any = None, tokenizer: Any = None) -> RolloutDumpCallback:
        """Start a dump from any part of the `rollout_dump` node, or from a trainer's whole config.

        Raises `ConfigError` for a mistake in the config, `DumpError` where the directory cannot be used.
        """
        checked = load_config(config)
        if checked.enabled and checked.path.dir is None and checked.path.validation_dir is None:
            raise ConfigError(
                ["rollout_dump.path.dir is not set, so there is nowhere to dump to. Set it, or enabled: false"]
            )
        return cls(checked, tokenizer)

    def on_rollout_end(self, batch: RolloutBatch) -> None:
        """Dump the rollouts of a training step, or of a validation where `batch.split` says so."""
        self._accept(batch)

    def on_validation_end(self, batch: RolloutBatch) -> None:
        """Dump the rollouts of a validation."""
        self._accept(batch if batch.split == "validation" else replace(batch, split="validation"))

    def on_train_end(self) -> None:
        """Write what is still to be written, and end the attempt as complete."""
        self.close()

    def on_train_failed(self, error: BaseException) -> None:
        """Write what is still to be written, and end the attempt as failed."""
        self._end("failed")

    def flush(self) -> None:
        """Wait until all batches that were handed over are in files. Under `on_error: raise`, raise what failed."""
        self._dispatch.flush()
        self._raise_unraised()

    def close(self) -> None:
        """Flush and stop; end the attempt as complete. A second call does nothing."""
        self._end("complete")

    @property
    def report(self) -> DumpReport:
        """What was written, converted, dropped and failed up to now: a copy."""
        with self._lock:
            return replace(
                self._counts,
                steps_dropped=list(self._counts.steps_dropped),
                steps_failed=list(self._counts.steps_failed),
                failures=dict(self._counts.failures),
                fields=dict(self._notes.counts),
                conversions=self._conversions.as_list(),
                seconds_blocked=round(self._dispatch.seconds_blocked, 3),
            )

    def __enter__(self) -> RolloutDumpCallback:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end("complete" if error is None else "failed")

    def _accept(self, batch: RolloutBatch) -> None:
        directory = self._directories.get(batch.split)
        if directory is None:
            return
        try:
            snapshot = self._snapshot(batch)
            if snapshot is None:
                return
            if not self._dispatch.submit(lambda: self._write(directory, snapshot)):
                self._counts.steps_dropped.append(batch.step)
                self._warn_once(("dropped",), f"step {batch.step} is dropped: the queue of rollouts is full")
        except Exception as error:
            self._fail(batch.step, "hand over", error)
        if self.config.on_error is OnError["raise"]:
            self.flush()

    def _snapshot(self, batch: RolloutBatch) -> StepSnapshot | None:
        """Take a snapshot of what is to be written of a batch; None: nothing is."""
        if self._state != "running":
            raise RuntimeError("the dump is closed; a batch that comes now is not written")
        counts = self._counts
        if batch.step % self.config.sampling.every_n_steps:
            counts.steps_not_sampled += 1
            return None
        kept = kept_rows(batch, self.config.sampling)
        counts.padding_rows += kept.padding
        counts.records_not_sampled += kept.not_sampled
        if not kept.rows:
            counts.empty_batches += 1
            return None
        fields = select_fields(batch, self.config.fields, self._notes)
        snapshot = take_snapshot(batch, fields, kept.rows, self._serializer, self.config)
        if self.tokenizer is None and any(isinstance(field, TextField) for field in snapshot.fields):
            raise BatchError(
                "prompts or responses are token ids and there is no tokenizer. Give one: "
                "RolloutDumpCallback.from_config(config, tokenizer=tokenizer), or hand over text"
            )
        return snapshot

    def _write(self, directory: DumpDirectory, snapshot: StepSnapshot) -> None:
        """Write a snapshot; never raises (it runs on the writing thread)."""
        try:
            size = directory.write_step(snapshot.step, self._lines.chunks(snapshot))
            with self._lock:
                self._counts.steps_written += 1
                self._counts.records_written += snapshot.rows
                self._counts.bytes_written += size
                self._conversions.merge(snapshot.report)
            self._warn_of_conversions(snapshot.report)
            directory.save_record(self.report.as_dict())
        except Exception as error:
            self._fail(snapshot.step, "write", error)

    def _warn_of_conversions(self, report: ConversionReport) -> None:
        for warning in report.warnings():
            self._warn_once((warning.field, warning.rule), warning.message)

    def _warn_once(self, kind: tuple[str, ...], message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            logger.warning("%s (said once; counted in the report)", message)

    def _fail(self, step: int, stage: str, error: Exception) -> None:
        """Count a failure; log the first of its kind; keep it for the caller under `on_error: raise`."""
        kind = f"{stage}: {type(error).__name__}"
        message = f"step {step} is not dumped (could not {stage} its rollouts): {type(error).__name__}: {error}"
        with self._lock:
            self._counts.steps_failed.append(step)
            self._counts.failures[kind] = self._counts.failures.get(kind, 0) + 1
            first = self._counts.failures[kind] == 1
        if self.config.on_error is OnError["raise"]:
            self._unraised = self._unraised or DumpError(message)
            self._unraised.__cause__ = error
        elif first:
            logger.error("%s; training goes on (said once; counted in the report)", message, exc_info=error)

    def _raise_unraised(self) -> None:
        error, self._unraised = self._unraised, None
        if error is not None:
            raise error

    def _text_decoder(self) -> TextDecoder:
        if self._decoder is None:
            self._decoder = text_decoder(self.tokenizer, self.config.writer.skip_special_tokens)
        return self._decoder

    def _end(self, state: State) -> None:
        if self._state != "running":
            return
        self._dispatch.close()
        self._state = state
        report = self.report
        for directory in self._directories.values():
            try:
                directory.close(state, report.as_dict())
            except OSError as error:
                logger.error("%s could not be written at the end: %s", directory.record.path, error)
        atexit.unregister(self._at_exit)
        if report.steps_failed or report.steps_dropped:
            missing = sorted({*report.steps_failed, *report.steps_dropped})
            logger.error("rollouts of %d steps are missing in the dump: %s; %s", len(missing), missing, report.failures)
        self._raise_unraised()


def open_directories(config: DumpConfig) -> dict[str, DumpDirectory]:
    """Open the directory of each split that is to be dumped; relative paths are relative to where the run stands."""
    if not config.enabled:
        return {}
    given = {"train": config.path.dir, "validation": config.path.validation_dir}
    paths = {split: Path(path).expanduser().absolute() for split, path in given.items() if path}
    if paths.get("train") == paths.get("validation") and paths:
        paths["validation"] = paths["validation"] / VALIDATION_FOLDER
    node = as_container(config)
    return {split: DumpDirectory(path, split, config, node) for split, path in paths.items()}


def close_at_exit(callback: RolloutDumpCallback) -> Any:
    """Close a dump that nobody closed when the interpreter ends, without keeping it alive until then."""
    reference = weakref.ref(callback)

    def close() -> None:
        alive = reference()
        if alive is not None:
            alive.close()

    atexit.register(close)
    return close
