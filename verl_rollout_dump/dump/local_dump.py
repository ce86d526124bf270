"""`LocalDump`: the dump of this process, from the batch to the file.

A batch goes through: select fields -> snapshot -> hand over (these on the caller's thread), then decode and
encode -> write (in the background, unless `writer.mode` is inline).
"""

from __future__ import annotations

import functools
import logging
import operator
import os
import sys
import time
from typing import Any

from verl_rollout_dump.batch.rollout_batch import BatchError, RolloutBatch
from verl_rollout_dump.batch.source import RolloutSource
from verl_rollout_dump.config import DumpConfig
from verl_rollout_dump.config.schema import OnError
from verl_rollout_dump.decode import TextDecoder, text_decoder
from verl_rollout_dump.dump.background import DISPATCHES, WaitedTooLong
from verl_rollout_dump.dump.counters import Accounts, note_drift
from verl_rollout_dump.dump.fields import select_fields
from verl_rollout_dump.dump.line_encoder import LineEncoder
from verl_rollout_dump.dump.report import DumpReport
from verl_rollout_dump.dump.sampling import NO_ROWS
from verl_rollout_dump.dump.snapshot import (
    ConvertedStep,
    StepSnapshot,
    bytes_of,
    converted,
    needs_tokenizer,
    take_snapshot,
)
from verl_rollout_dump.errors import DumpError
from verl_rollout_dump.serialization import Serializer
from verl_rollout_dump.storage.attempts import State
from verl_rollout_dump.storage.opening import OpenDirectory, open_directories
from verl_rollout_dump.storage.retries import Retries
from verl_rollout_dump.storage.step_files import format_steps

logger = logging.getLogger(__name__)


class LocalDump:
    """Takes batches and writes them; one attempt in each of its directories.

    Making one makes and locks the directories, and raises `DumpError` where that fails.
    """

    def __init__(self, config: DumpConfig, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._config = config
        self._pid = os.getpid()
        self._state: State = "running"
        self._accounts = Accounts(config.on_error)
        self._serializer = Serializer(config.serialization)
        self._lines = LineEncoder(self._serializer, config.serialization.max_chars, self._text_decoder)
        self._decoder: TextDecoder | None = None
        self._directories = open_directories(config)
        self._dispatch = DISPATCHES[config.writer.mode](config.writer)
        self._retries = Retries(config.writer.retry_seconds, self._dispatch.has_room)

    @property
    def report(self) -> DumpReport:
        """What was done up to now: a copy."""
        report = self._accounts.report(self._dispatch.seconds_blocked)
        report.steps_waiting_for_store = sum(len(d.waiting_steps) for d in self._directories.values())
        return report

    def accept(self, batch: RolloutBatch) -> None:
        """Take a batch. Under `on_error: raise`, return when its file is there, or raise `DumpError`."""
        if os.getpid() != self._pid:
            self._refuse_in_child(batch.step)
            return
        directory = self._directories.get(batch.split)
        if directory is None:
            return
        try:
            self._hand_over(directory, batch)
        except Exception as error:
            self._note_failed(directory, batch.step, "hand over", error)
        if self._config.on_error is OnError["raise"]:
            started = time.monotonic()
            self.flush()
            self._accounts.note_waited(time.monotonic() - started)

    def accept_from(self, source: RolloutSource) -> None:
        """Read a batch where it lies, and take it; a step that is not wanted is not read."""
        if source.step % self._config.sampling.every_n_steps:
            self._accounts.note_step_not_sampled()
            return
        try:
            batch = source.read(self._config)
        except Exception as error:
            directory = self._directories.get("train")
            if directory is not None:
                self._note_failed(directory, source.step, "read", error)
            self._accounts.raise_unraised()
            return
        self.accept(batch)

    def flush(self, seconds: float | None = None) -> None:
        """Wait until all batches that were handed over are in files, for at most so many seconds."""
        if os.getpid() != self._pid:
            return
        try:
            self._dispatch.flush(seconds)
        except WaitedTooLong as error:
            self._accounts.note_fault("wait for the rollouts to be written", error)
        self._accounts.raise_unraised()

    def end(self, state: State, seconds: float | None = None) -> None:
        """Flush, for at most so many seconds, and end the attempt; a second call does nothing."""
        if self._state != "running" or os.getpid() != self._pid:
            return
        self._state = state
        if seconds is not None:
            self._retries.hurry()
        is_idle = self._stop(seconds)
        for directory in self._directories.values():
            self._end_directory(directory, state, is_idle)
        self._tell_what_is_missing()
        self._accounts.raise_unraised()

    def _hand_over(self, directory: OpenDirectory, batch: RolloutBatch) -> None:
        if operator.index(batch.step) < 0:
            raise BatchError(f"the step of a batch is {batch.step}; expected a whole number from 0 on")
        snapshot = self._snapshot(batch)
        if snapshot is None:
            return
        task = functools.partial(self._write, directory, snapshot)
        directory.handed_over.add(snapshot.step)
        if not self._dispatch.submit(task, functools.partial(bytes_of, snapshot)):
            directory.handed_over.discard(snapshot.step)
            directory.record.current.dropped.add(snapshot.step)
            self._accounts.note_dropped(snapshot.step)

    def _snapshot(self, batch: RolloutBatch) -> StepSnapshot | None:
        """Take a snapshot of what is to be written of a batch; None: nothing is."""
        if self._state != "running":
            raise RuntimeError("the dump is closed; a batch that comes now is not written")
        if batch.step % self._config.sampling.every_n_steps:
            self._accounts.note_step_not_sampled()
            return None
        if not len(batch):
            self._accounts.note_kept(NO_ROWS)
            return None
        fields = select_fields(batch, self._config.fields, self._accounts.notes)
        snapshot = take_snapshot(batch, fields, self._serializer, self._config)
        if self.tokenizer is None and needs_tokenizer(snapshot):
            raise BatchError(
                "prompts or responses are token ids and there is no tokenizer. Give one: "
                "RolloutDumpCallback.from_config(config, tokenizer=tokenizer), or hand over text"
            )
        return snapshot

    def _write(self, directory: OpenDirectory, snapshot: StepSnapshot) -> None:
        """Write a snapshot; never raises (it runs on the writing thread)."""
        step = snapshot.step
        try:
            kept = snapshot.kept.value
            self._accounts.note_kept(kept)
            if not kept.rows:
                return
            once = functools.partial(self._write_once, directory, snapshot)
            size, written = self._retries.run(f"writing step {step}", once)
            self._accounts.note_written(written.rows, size, [snapshot.report, written.report])
            note_drift(written, self._accounts.notes)
        except Exception as error:
            self._note_failed(directory, step, "write", error)
        finally:
            directory.handed_over.discard(step)
        try:
            directory.save_record(self.report.as_dict())
        except Exception as error:
            self._accounts.note_fault("write run.json", error)

    def _write_once(self, directory: OpenDirectory, snapshot: StepSnapshot) -> tuple[int, ConvertedStep]:
        step = converted(snapshot)  # of this try alone: what a failed one converted does not count
        return directory.write_step(step.step, self._lines.chunks(step)), step

    def _note_failed(self, directory: OpenDirectory, step: int, stage: str, error: Exception) -> None:
        directory.handed_over.discard(step)
        if isinstance(step, int) and step >= 0:
            directory.record.current.failed.add(step)
        self._accounts.note_failed(step, stage, error)

    def _stop(self, seconds: float | None) -> bool:
        """Stop the writing thread; return whether it is idle."""
        try:
            self._dispatch.close(seconds)
        except WaitedTooLong as error:
            self._accounts.note_fault("wait for the rollouts to be written", error)
            for directory in self._directories.values():
                for step in sorted(directory.handed_over):
                    self._note_failed(directory, step, "wait for", error)
            return False
        return True

    def _end_directory(self, directory: OpenDirectory, state: State, is_idle: bool) -> None:
        try:
            directory.end(state, self.report.as_dict)
        except Exception as error:
            attempt = directory.record.current
            logger.error("run.json of %s could not be written at the end: %s", directory.path, error)
            print(  # whatever became of logging: this is the only place left that can tell
                f"verl_rollout_dump: run.json of {directory.path} could not be written ({error}). Written: steps "
                f"{format_steps(attempt.steps) or 'none'}; failed: {format_steps(attempt.failed) or 'none'}; "
                f"dropped: {format_steps(attempt.dropped) or 'none'}",
                file=sys.stderr,
                flush=True,
            )
        if is_idle:  # a thread that hangs may still write, so the lock stays until the process ends
            directory.release()

    def _tell_what_is_missing(self) -> None:
        report = self.report
        if report.steps_failed or report.steps_dropped:
            missing = sorted({*report.steps_failed, *report.steps_dropped})
            logger.error("rollouts of %d steps are missing in the dump: %s; %s", len(missing), missing, report.failures)

    def _text_decoder(self) -> TextDecoder:
        if self._decoder is None:
            self._decoder = text_decoder(self.tokenizer, self._config.writer.skip_special_tokens)
        return self._decoder

    def _refuse_in_child(self, step: int) -> None:
        """A forked child has no writing thread, and the directory is its parent's: nothing is touched."""
        message = f"step {step} is not dumped: this process was forked from pid {self._pid}, which owns the dump"
        if self._config.on_error is OnError["raise"]:
            raise DumpError(message)
        logger.error("%s. Make a RolloutDumpCallback of its own, in another directory", message)
