"""`writer.mode=ray`: Ray actors write, each its part of every step (`writer.shards` of them, spread over the nodes).

For batches too large for the process that trains. Each actor is a dump of its own, with its queue, its folder
(see shards.py) and its attempts. The training waits until every actor has its part: has it pulled it from
TransferQueue, or received it, and put it into its queue. A full queue makes it wait longer, up to
`writer.timeout_seconds`. An actor that dies is started again by Ray, as a new attempt; what its queue held is lost, and
its part of the step that was being handed over counts as failed.
"""

from __future__ import annotations

import atexit
import functools
import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ray

from verl_rollout_dump.batch.rollout_batch import RolloutBatch
from verl_rollout_dump.batch.source import RolloutSource, split_batch
from verl_rollout_dump.config import DumpConfig
from verl_rollout_dump.config.schema import Mode, OnError
from verl_rollout_dump.dump.counters import Accounts
from verl_rollout_dump.dump.local_dump import LocalDump
from verl_rollout_dump.dump.report import DumpReport
from verl_rollout_dump.dump.shutdown import open_dumps
from verl_rollout_dump.errors import DumpError
from verl_rollout_dump.storage.attempts import State

logger = logging.getLogger(__name__)

RESTARTS = 3
OPENING_SECONDS = 120.0


class WritingActor:
    """One writer, in a process of its own. One that Ray has started again opens its dump at its first part."""

    def __init__(self, config: DumpConfig, tokenizer: Any) -> None:
        self._config = config
        self._tokenizer = tokenizer

    @functools.cached_property
    def _dump(self) -> LocalDump:
        dump = LocalDump(self._config, self._tokenizer)
        open_dumps.add(dump)
        return dump

    def open(self) -> None:
        """Open the dump. Raises `DumpError`."""
        self.report()

    def set_tokenizer(self, tokenizer: Any) -> None:
        """Take the tokenizer, before the first batch of token ids."""
        self._dump.tokenizer = tokenizer

    def accept(self, batch: RolloutBatch) -> None:
        """Take a part of a batch. Raises `DumpError` under `on_error: raise`."""
        self._dump.accept(batch)

    def accept_from(self, source: RolloutSource) -> None:
        """Read a part of a batch where it lies, and take it. Raises `DumpError` under `on_error: raise`."""
        self._dump.accept_from(source)

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

    Making one starts the actors, and raises `DumpError` where Ray is not there or an actor cannot open its folder.
    """

    def __init__(self, config: DumpConfig, tokenizer: Any) -> None:
        if not ray.is_initialized():
            raise DumpError("rollout_dump.writer.mode=ray needs a running Ray: ray.init() first, or mode=background")
        self.tokenizer = tokenizer
        self._told: Any = tokenizer  # the tokenizer that the actors have: it is large, and travels once
        self._config = config
        self._state: State = "running"
        self._accounts = Accounts(config.on_error)
        self._last_reports: list[DumpReport] = []
        self._seconds = float(config.writer.timeout_seconds)
        self._actors = [start_actor(config, shard, tokenizer) for shard in range(config.writer.shards)]
        where = self._call_all("open", [()] * len(self._actors), OPENING_SECONDS)
        failed = next((answer for answer in where if isinstance(answer, Exception)), None)
        if failed is not None:
            for actor in self._actors:
                ray.kill(actor)
            raise DumpError(f"a writing actor could not start: {cause_of(failed)}") from failed
        atexit.register(open_dumps.close_all)  # once more: to run before what Ray has registered

    @property
    def report(self) -> DumpReport:
        """What all actors did up to now, put together."""
        reports = self._last_reports or self._call_all("report", [()] * len(self._actors), self._seconds)
        return merged([r for r in reports if isinstance(r, DumpReport)], self._accounts.report(0.0))

    def accept(self, batch: RolloutBatch) -> None:
        """Send each actor its part; return when all have it."""
        parts = split_batch(batch.complete(), len(self._actors))
        self._hand_over("accept", batch.step, parts)

    def accept_from(self, source: RolloutSource) -> None:
        """Let each actor read its part where it lies; return when all have it."""
        self._hand_over("accept_from", source.step, source.split(len(self._actors)))

    def flush(self, seconds: float | None = None) -> None:
        """Wait until all that was handed over is in files."""
        bound = self._seconds if seconds is None else seconds
        self._note_failures("wait for the rollouts to be written", "flush", [(bound,)] * len(self._actors), bound)
        self._accounts.raise_unraised()

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
        self._accounts.raise_unraised()

    def _hand_over(self, method: str, step: int, parts: Sequence[Any]) -> None:
        started = time.monotonic()
        if self.tokenizer is not self._told:
            self._call_all("set_tokenizer", [(self.tokenizer,)] * len(self._actors), self._seconds)
            self._told = self.tokenizer
        answers = self._call_all(method, [(part,) for part in parts], self._seconds)
        self._accounts.note_waited(time.monotonic() - started)
        failed = [answer for answer in answers if isinstance(answer, Exception)]
        for answer in failed[:1]:
            self._accounts.note_failed(step, f"hand over (to {len(failed)} of {len(answers)} actors)", cause_of(answer))
        if self._config.on_error is OnError["raise"]:
            self._accounts.raise_unraised()

    def _note_failures(self, what: str, method: str, arguments: list[tuple[Any, ...]], seconds: float) -> list[Any]:
        answers = self._call_all(method, arguments, seconds)
        for answer in answers:
            if isinstance(answer, Exception):
                self._accounts.note_fault(what, cause_of(answer))
        return answers

    def _call_all(self, method: str, arguments: list[tuple[Any, ...]], seconds: float) -> list[Any]:
        """Call a method of every actor and return the answers; of one that failed, or took too long, the exception."""
        calls = [getattr(actor, method).remote(*given) for actor, given in zip(self._actors, arguments, strict=True)]
        ends = time.monotonic() + seconds + 5.0  # actors come to their own bound first, and say more
        return [answer_of(call, ends - time.monotonic()) for call in calls]


def start_actor(config: DumpConfig, shard: int, tokenizer: Any) -> Any:
    """Start one actor, on the node that has the fewest."""
    own = replace(
        config, writer=replace(config.writer, mode=Mode.background, shard=shard), sampling=sampling_of(config)
    )
    options = {"num_cpus": 0, "max_restarts": RESTARTS, "scheduling_strategy": "SPREAD"}
    return ray.remote(WritingActor).options(**options).remote(own, tokenizer)


def sampling_of(config: DumpConfig) -> Any:
    """Return the sampling of one writer: its share of `max_records`."""
    whole = config.sampling.max_records
    return config.sampling if whole is None else replace(config.sampling, max_records=-(-whole // config.writer.shards))


def answer_of(call: Any, seconds: float) -> Any:
    """Return what a call gives, or the exception in its place."""
    try:
        return ray.get(call, timeout=max(0.0, seconds))
    except Exception as error:
        return error


def cause_of(error: Exception) -> Exception:
    """Return what an actor raised; Ray wraps it."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Exception) else error


def merged(reports: list[DumpReport], own: DumpReport) -> DumpReport:
    """Put the reports of all writers together; a step counts once, and as failed if any part of it did."""
    everything = [*reports, own]
    sums = ("records_written", "bytes_written", "padding_rows", "records_not_sampled", "steps_waiting_for_store")
    most = ("steps_written", "empty_batches", "steps_not_sampled")
    conversions: dict[tuple[Any, ...], dict[str, Any]] = {}
    for entry in (entry for report in everything for entry in report.conversions):
        key = tuple(value for name, value in entry.items() if name not in ("count", "first_record"))
        count = conversions.get(key, {"count": 0})["count"] + entry["count"]
        conversions[key] = {**conversions.get(key, entry), "count": count}
    return DumpReport(
        **{name: sum(getattr(report, name) for report in everything) for name in sums},
        **{name: max(getattr(report, name) for report in everything) for name in most},
        steps_dropped=sorted({step for report in everything for step in report.steps_dropped}),
        steps_failed=sorted({step for report in everything for step in report.steps_failed}),
        fields=dict(sum((Counter(report.fields) for report in everything), Counter())),
        failures=dict(sum((Counter(report.failures) for report in everything), Counter())),
        conversions=list(conversions.values()),
        seconds_blocked=own.seconds_blocked,
    )
