"""`LocalDump`: the dump of this process, from the batch to the file.

A batch goes through: select fields -> snapshot -> hand over (these on the caller's thread), then decode and
encode -> write (in the background, unless `writer.mode` is inline).
"""

from __future__ import annotations

import functools
import logging
import os
import time
from typing import Any

from verl_rollout_dump.batch.rollout_batch import BatchError, RolloutBatch
from verl_rollout_dump.batch.source import RolloutSource
from verl_rollout_dump.config import DumpConfig
from verl_rollout_dump.config.schema import OnError
from verl_rollout_dump.decode import TextDecoder, text_decoder
from verl_rollout_dump.dump.background import DISPATCHES, WaitedTooLong
from verl_rollout_dump.dump.counters import DumpCounters
from verl_rollout_dump.dump.fields import select_fields
from verl_rollout_dump.dump.line_encoder import LineEncoder
from verl_rollout_dump.dump.report import DumpReport
from verl_rollout_dump.dump.sampling import choose_rows, is_step_wanted
from verl_rollout_dump.dump.snapshot import (
    ConvertedStep,
    StepSnapshot,
    convert_snapshot,
    needs_tokenizer,
    take_snapshot,
)
from verl_rollout_dump.dump.split_dump import SplitDump
from verl_rollout_dump.errors import DumpError
from verl_rollout_dump.serialization import Serializer
from verl_rollout_dump.storage.attempts import State
from verl_rollout_dump.storage.open_directory import OpenDirectory
from verl_rollout_dump.storage.opening import open_directories
from verl_rollout_dump.storage.retries import Retries

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
        self._serializer = Serializer(config.serialization)
        self._lines = LineEncoder(self._serializer, config.serialization.max_chars, self._text_decoder)
        self._decoder: TextDecoder | None = None
        self._splits = {
            split: SplitDump(directory, DumpCounters(config.on_error))
            for split, directory in open_directories(config).items()
        }
        self._dispatch = DISPATCHES[config.writer.mode](config.writer)
        self._retries = Retries(config.writer.retry_seconds, self._dispatch.has_room)

    @property
    def report(self) -> DumpReport:
        """What was done up to now, in all splits: a copy."""
        return DumpReport.of_splits([split.report for split in self._splits.values()])

    def accept(self, batch: RolloutBatch, first_record: int = 0) -> None:
        """Take a batch. Under `on_error: raise`, return when its file is there, or raise `DumpError`.

        `first_record` is the number of its first rollout within the step, for a writer that gets a part of it.
        """
        if os.getpid() != self._pid:
            self._refuse_in_child(batch.step)
            return
        split = self._splits.get(batch.split)
        if split is None:
            return
        try:
            self._hand_over(split, batch, first_record)
        except Exception as error:
            split.note_failed(batch.step, len(batch), "hand over", error)
        if self._config.on_error is OnError["raise"]:
            started = time.monotonic()
            self.flush()
            split.counters.note_waited(time.monotonic() - started)

    def accept_from(self, source: RolloutSource, first_record: int = 0) -> None:
        """Read a batch where it lies, and take it; a step that is not wanted is not read."""
        split = self._splits.get("train")
        if split is None:
            return
        if not is_step_wanted(source.step, self._config.sampling):
            split.counters.note_step_not_sampled()
            return
        try:
            batch = source.read(self._config)
        except Exception as error:
            split.note_failed(source.step, len(source.uids), "read", error)
            self._raise_unraised()
            return
        self.accept(batch, first_record)

    def flush(self, seconds: float | None = None) -> None:
        """Wait until all batches that were handed over are in files, for at most so many seconds."""
        if os.getpid() != self._pid:
            return
        try:
            self._dispatch.flush(seconds)
        except WaitedTooLong as error:
            self._note_fault("wait for the rollouts to be written", error)
        self._raise_unraised()

    def end(self, state: State, seconds: float | None = None) -> None:
        """Flush, for at most so many seconds, and end the attempt; a second call does nothing."""
        if self._state != "running" or os.getpid() != self._pid:
            return
        self._state = state
        if seconds is not None:
            self._retries.hurry()
        is_idle = self._stop(seconds)
        for split in self._splits.values():
            split.end(state)
            if is_idle:  # a thread that hangs may still write, so the lock stays until the process ends
                split.directory.release()
        self._raise_unraised()

    def _hand_over(self, split: SplitDump, batch: RolloutBatch, first_record: int) -> None:
        if self._state != "running":
            raise RuntimeError("the dump is closed; a batch that comes now is not written")
        sampling, counters = self._config.sampling, split.counters
        _, kept = choose_rows(batch.step, len(batch), batch.uids, batch.padding_rows, sampling, counters)
        if not kept:
            return
        fields = select_fields(batch, self._config.fields, counters.notes)
        split.directory.note_uid_form(batch.uid_form)
        snapshot = take_snapshot(batch, kept, fields, self._serializer, first_record)
        if self.tokenizer is None and needs_tokenizer(snapshot):
            raise BatchError(
                "prompts or responses are token ids and there is no tokenizer. Give one: "
                "RolloutDumpCallback.from_config(config, tokenizer=tokenizer), or hand over text"
            )
        self._submit(split, snapshot)

    def _submit(self, split: SplitDump, snapshot: StepSnapshot) -> None:
        task = functools.partial(self._write, split, snapshot)
        split.directory.note_handed_over(snapshot.step)
        waited = self._dispatch.seconds_blocked
        try:
            is_taken = self._dispatch.submit(task, lambda: snapshot.nbytes)
        finally:
            split.counters.note_waited(self._dispatch.seconds_blocked - waited)
        if not is_taken:
            split.note_dropped(snapshot.step, len(snapshot.kept))

    def _write(self, split: SplitDump, snapshot: StepSnapshot) -> None:
        """Write a snapshot; never raises (it runs on the writing thread)."""
        step = snapshot.step
        try:
            once = functools.partial(self._write_once, split.directory, snapshot)
            size, written = self._retries.run(f"writing step {step}", once)
            split.counters.note_written(snapshot, written, size)
        except Exception as error:
            split.note_failed(step, len(snapshot.kept), "write", error)
        finally:
            split.directory.note_finished(step)
        split.save_record()

    def _write_once(self, directory: OpenDirectory, snapshot: StepSnapshot) -> tuple[int, ConvertedStep]:
        step = convert_snapshot(snapshot)  # of this try alone: what a failed try converted does not count
        return directory.write_step(step.step, self._lines.chunks(step)), step

    def _note_fault(self, what: str, error: Exception) -> None:
        for split in list(self._splits.values())[:1]:  # a fault of the writing thread, which all splits share
            split.counters.note_fault(what, error)

    def _raise_unraised(self) -> None:
        for split in self._splits.values():
            split.counters.failures.raise_unraised()

    def _stop(self, seconds: float | None) -> bool:
        """Stop the writing thread; return whether it is idle."""
        try:
            self._dispatch.close(seconds)
        except WaitedTooLong as error:
            self._note_fault("wait for the rollouts to be written", error)
            for split in self._splits.values():
                for step in split.directory.unfinished_steps:
                    split.note_failed(step, 0, "wait for", error)
            return False
        return True

    def _text_decoder(self) -> TextDecoder:
        if self._decoder is None:
            self._decoder = text_decoder(self.tokenizer, self._config.writer.skip_special_tokens)
        return self._decoder

    def _refuse_in_child(self, step: int) -> None:
        """Refuse a batch in a forked child: it has no writing thread, and the directory is its parent's."""
        message = f"step {step} is not dumped: this process was forked from pid {self._pid}, which owns the dump"
        if self._config.on_error is OnError["raise"]:
            raise DumpError(message)
        logger.error("%s. Make a RolloutDumpCallback of its own, in another directory", message)
