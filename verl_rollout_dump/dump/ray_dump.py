"""`writer.mode=ray`: Ray actors write, each its part of every step (`writer.shards` of them, spread over the nodes).

For batches that are too large for the process that trains. Each actor is a dump of its own, with its own queue, folder
(`storage.step_files`) and attempts. The training waits until every actor has put its part into its queue: it has read
it from TransferQueue, or received it. A full queue makes the training wait longer, up to `writer.timeout_seconds`. Ray
starts an actor that died again, as a new attempt; what its queue held is lost, and its part of the step that was being
handed over counts as failed.
"""

from __future__ import annotations

import atexit
import functools
import logging
import time
from dataclasses import replace
from typing import Any

import ray

from verl_rollout_dump.batch.rollout_batch import RolloutBatch
from verl_rollout_dump.batch.source import RolloutSource, part_bounds
from verl_rollout_dump.config import DumpConfig
from verl_rollout_dump.config.schema import Mode, OnError
from verl_rollout_dump.dump.counters import DumpCounters
from verl_rollout_dump.dump.local_dump import LocalDump
from verl_rollout_dump.dump.report import DumpReport
from verl_rollout_dump.dump.sampling import choose_rows
from verl_rollout_dump.dump.shutdown import open_dumps
from verl_rollout_dump.errors import DumpError
from verl_rollout_dump.storage.attempts import State

logger = logging.getLogger(__name__)

_RESTARTS = 3
_OPENING_SECONDS = 120.0


class _WritingActor:
    """One writer, in a process of its own. One that Ray has started again opens its dump at its first part."""

    def __init__(self, config: DumpConfig, tokenizer: Any) -> None:
        self._config = config
        self._tokenizer = tokenizer

    @functools.cached_property
    def _dump(self) -> LocalDump:
        dump = LocalDump(self._config, self._tokenizer)
        open_dumps.add(dump, self._config.path)
        return dump

    def open(self) -> None:
        """Open the dump. Raises `DumpError`."""
        self.report()

    def set_tokenizer(self, tokenizer: Any) -> None:
        """Take the tokenizer, before the first batch of token ids."""
        self._dump.tokenizer = tokenizer

    def accept(self, batch: RolloutBatch, first_record: int) -> None:
        """Take a part of a batch. Raises `DumpError` under `on_error: raise`."""
        self._dump.accept(batch, first_record)

    def accept_from(self, source: RolloutSource, first_record: int) -> None:
        """Read a part of a batch where it lies, and take it. Raises `DumpError` under `on_error: raise`."""
        self._dump.accept_from(source, first_record)

    def flush(self, seconds: float) -> None:
        """Wait until all that was taken is in files."""
        self._dump.flush(seconds)

    def end(self, state: State, seconds: float) -> DumpReport:
        """Flush, end the attempt, and return what was done."""
        try:
            self._dump.end(state, seconds)
        finally:
            open_dumps.remove(self._dump)
        return self._dump.report

    def report(self) -> DumpReport:
        """Return what was done up to now."""
        return self._dump.report


class RayDump:
    """Takes batches and hands their parts to the actors.

    Which steps and rollouts are written is decided here, so that it is the same for any number of writers. Making one
    starts the actors, and raises `DumpError` if Ray is not running or an actor cannot open its folder.
    """

    def __init__(self, config: DumpConfig, tokenizer: Any) -> None:
        if not ray.is_initialized():
            raise DumpError("rollout_dump.writer.mode=ray needs a running Ray: ray.init() first, or mode=background")
        self.tokenizer = tokenizer
        self._sent_tokenizer: Any = tokenizer  # the tokenizer that the actors have: it is large, and travels once
        self._config = config
        self._wanted = {"train": config.path.dir, "validation": config.path.validation_dir}
        self._state: State = "running"
        self._counters = DumpCounters(config.on_error)
        self._last_reports: list[DumpReport] = []
        self._seconds = float(config.writer.timeout_seconds)
        self._actors = [_start_actor(config, shard, tokenizer) for shard in range(config.writer.shards)]
        answers = self._call_all("open", [()] * len(self._actors), _OPENING_SECONDS)
        failed = next((answer for answer in answers if isinstance(answer, Exception)), None)
        if failed is not None:
            for actor in self._actors:
                ray.kill(actor)
            raise DumpError(f"a writing actor could not start: {_cause_of(failed)}") from failed
        atexit.register(open_dumps.close_all)  # again, so that it runs before what Ray has registered

    @property
    def report(self) -> DumpReport:
        """What all actors did up to now, merged."""
        reports = self._last_reports or self._call_all("report", [()] * len(self._actors), self._seconds)
        own = self._counters.report()
        merged = DumpReport.of_shards([own, *(report for report in reports if isinstance(report, DumpReport))])
        merged.seconds_blocked = own.seconds_blocked  # the actors wait beside the training thread
        return merged

    def accept(self, batch: RolloutBatch) -> None:
        """Send each actor its part; return when all have it."""
        self._accept_rows("accept", batch.step, batch, batch.split, batch.uids, len(batch))

    def accept_from(self, source: RolloutSource) -> None:
        """Let each actor read its part where it lies; return when all have it."""
        self._accept_rows("accept_from", source.step, source, "train", source.uids, len(source.uids))

    def flush(self, seconds: float | None = None) -> None:
        """Wait until all that was handed over is in files."""
        bound = self._seconds if seconds is None else seconds
        self._note_failures("wait for the rollouts to be written", "flush", [(bound,)] * len(self._actors), bound)
        self._counters.failures.raise_unraised()

    def end(self, state: State, seconds: float | None = None) -> None:
        """Flush and end the actors; a second call does nothing."""
        if self._state != "running":
            return
        self._state = state
        bound = self._seconds if seconds is None else seconds
        if ray.is_initialized():
            what = "end the writing actors"
            answers = self._note_failures(what, "end", [(state, bound)] * len(self._actors), bound)
            self._last_reports = [answer for answer in answers if isinstance(answer, DumpReport)]
            for actor in self._actors:
                ray.kill(actor)
        else:
            logger.error("Ray was shut down before the dump was closed: what its actors had not written is lost")
        self._last_reports = self._last_reports or [DumpReport()]
        self._counters.failures.raise_unraised()

    def _accept_rows(
        self, method: str, step: Any, rollouts: RolloutBatch | RolloutSource, split: str, uids: Any, n: int
    ) -> None:
        """Choose the rows that are written, and hand each actor its part of them."""
        if self._wanted[split] is None:
            return
        try:
            if self._state != "running":
                raise RuntimeError("the dump is closed; a batch that comes now is not written")
            padding, sampling = rollouts.padding_rows, self._config.sampling
            number, rows = choose_rows(step, n, uids, padding, sampling, self._counters)
            if not rows:
                return
            # The first actors get the rows of a batch that is smaller than their number: they have every step.
            parts = part_bounds(len(rows), min(len(rows), len(self._actors)))
            self._hand_over(method, number, [(rollouts.take(rows[first:last]), first) for first, last in parts])
        except Exception as error:
            self._counters.note_failed(step, n, "hand over", error)
        if self._config.on_error is OnError["raise"]:
            self._counters.failures.raise_unraised()

    def _hand_over(self, method: str, step: int, parts: list[tuple[Any, int]]) -> None:
        started = time.monotonic()
        if self.tokenizer is not self._sent_tokenizer:
            self._call_all("set_tokenizer", [(self.tokenizer,)] * len(self._actors), self._seconds)
            self._sent_tokenizer = self.tokenizer
        answers = self._call_all(method, parts, self._seconds)
        self._counters.note_waited(time.monotonic() - started)
        lost = [(answer, part) for answer, part in zip(answers, parts, strict=True) if isinstance(answer, Exception)]
        if lost:
            what = f"hand over (to {len(lost)} of {len(answers)} actors)"
            records = sum(_rollouts_of(part) for _, (part, _) in lost)
            self._counters.note_failed(step, records, what, _cause_of(lost[0][0]))

    def _note_failures(self, what: str, method: str, arguments: list[tuple[Any, ...]], seconds: float) -> list[Any]:
        answers = self._call_all(method, arguments, seconds)
        for answer in answers:
            if isinstance(answer, Exception):
                self._counters.note_fault(what, _cause_of(answer))
        return answers

    def _call_all(self, method: str, arguments: list[tuple[Any, ...]], seconds: float) -> list[Any]:
        """Call a method of the first actors, one for each tuple of arguments, and return the answers.

        The answer of a call that failed, or took too long, is the exception.
        """
        calls = [getattr(actor, method).remote(*given) for actor, given in zip(self._actors, arguments, strict=False)]
        ends = time.monotonic() + seconds + 5.0  # actors reach their own bound first, and say more
        return [_answer_of(call, ends - time.monotonic()) for call in calls]


def _start_actor(config: DumpConfig, shard: int, tokenizer: Any) -> Any:
    """Start one actor, on the node that has the fewest."""
    own = replace(config, writer=replace(config.writer, mode=Mode.background, shard=shard))
    options = {"num_cpus": 0, "max_restarts": _RESTARTS, "scheduling_strategy": "SPREAD"}
    return ray.remote(_WritingActor).options(**options).remote(own, tokenizer)


def _rollouts_of(part: RolloutBatch | RolloutSource) -> int:
    """Return how many rollouts a part has."""
    return len(part) if isinstance(part, RolloutBatch) else len(part.uids)


def _answer_of(call: Any, seconds: float) -> Any:
    """Return what a call gives, or the exception in its place."""
    try:
        return ray.get(call, timeout=max(0.0, seconds))
    except Exception as error:
        return error


def _cause_of(error: Exception) -> Exception:
    """Return what an actor raised; Ray wraps it."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Exception) else error
