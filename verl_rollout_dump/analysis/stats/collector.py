"""Compute the figures of steps in one pass over their records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from typing import Any

from verl_rollout_dump.analysis.stats.figures import StepStats, summarize
from verl_rollout_dump.reader import Dump, DumpFile, DumpReadError, Record
from verl_rollout_dump.reader.field_names import names_with_roles, prompt_uid, score_of, text_of
from verl_rollout_dump.reader.index import NO_STEP, step_of_record
from verl_rollout_dump.reader.lines import read_lines
from verl_rollout_dump.reader.parallel import OnProgress, for_files, ignore_progress
from verl_rollout_dump.reader.parsing import record_of
from verl_rollout_dump.reader.streams import open_stream

NUMBERS = frozenset((int, float, bool))
CUT_REASONS = ("length", "max_tokens", "max_length")
# field -> function from its value to whether the response was cut
TRUNCATION: dict[str, Callable[[Any], bool]] = {
    "truncated": bool,
    "is_truncated": bool,
    "overlong": bool,
    "finish_reason": lambda reason: reason in CUT_REASONS,
    "stop_reason": lambda reason: reason in CUT_REASONS,
}


class StepCollector:
    """Accumulates the records of one step. Keeps numbers and hashes, no texts."""

    def __init__(self) -> None:
        self.records = 0
        self.unreadable = 0
        self.numbers: defaultdict[str, list[float]] = defaultdict(list)
        self.scores: list[float] = []
        self.lengths: list[int] = []
        self.responses: Counter[int] = Counter()
        self.cut: list[bool] = []
        self.by_uid: defaultdict[str, set[float | None]] = defaultdict(set)
        self.by_prompt: defaultdict[int, set[float | None]] = defaultdict(set)
        self.sizes_by_uid: Counter[str] = Counter()
        self.sizes_by_prompt: Counter[int] = Counter()

    def add(self, record: Record) -> None:
        """Add a record."""
        self.records += 1
        response = text_of(record, "response")
        self.lengths.append(len(response))
        self.responses[hash(response)] += 1
        score = score_of(record)
        if score is not None:
            self.scores.append(score)
        self._add_to_groups(record, score)
        taken = names_with_roles(tuple(record))
        for name, value in record.items():
            if name in taken:
                continue
            if type(value) in NUMBERS:
                self.numbers[name].append(value)
            elif type(value) is dict:
                self._add_nested(name, value)
        for name in record.keys() & TRUNCATION:
            self.cut.append(TRUNCATION[name](record[name]))

    def _add_nested(self, name: str, value: Record) -> None:
        for key, item in value.items():
            if type(item) in NUMBERS:
                self.numbers[f"{name}.{key}"].append(item)

    def _add_to_groups(self, record: Record, score: float | None) -> None:
        prompt = hash(text_of(record, "prompt"))
        self.by_prompt[prompt].add(score)
        self.sizes_by_prompt[prompt] += 1
        uid = prompt_uid(record)
        if uid is not None:
            self.by_uid[uid].add(score)
            self.sizes_by_uid[uid] += 1

    def finish(self, step: int) -> StepStats:
        """Return the figures of the records added."""
        uids_are_shared = len(self.by_uid) < sum(self.sizes_by_uid.values()) == self.records
        # Both tables have the same shape; only the keys differ.
        scores: dict[Any, set[float | None]] = dict(self.by_uid if uids_are_shared else self.by_prompt)
        sizes: Counter[Any] = self.sizes_by_uid if uids_are_shared else self.sizes_by_prompt
        groups = [key for key, size in sizes.items() if size > 1]
        total = max(self.records, 1)
        return StepStats(
            step=step,
            records=self.records,
            unreadable_lines=self.unreadable,
            score=summarize(self.scores),
            response_length=summarize(self.lengths),
            empty=self.lengths.count(0) / total,
            duplicated=sum(count for count in self.responses.values() if count > 1) / total,
            truncated=sum(self.cut) / len(self.cut) if self.cut else None,
            groups=len(groups),
            groups_without_signal=sum(len(scores[key]) == 1 for key in groups),
            extras={name: summarize(values) for name, values in self.numbers.items()},
        )


def collect_files(files: list[DumpFile]) -> list[StepStats]:
    """Return the figures of the steps in some files, sorted by step."""
    collectors: defaultdict[int, StepCollector] = defaultdict(StepCollector)
    for file in files:
        collect_file(file, collectors)
    return [collector.finish(step) for step, collector in sorted(collectors.items())]


def collect_file(file: DumpFile, collectors: defaultdict[int, StepCollector]) -> None:
    """Add the records of a file to the collectors of their steps, and count unreadable lines."""
    unknown_step = NO_STEP if file.step is None else file.step
    try:
        with open_stream(file.path) as stream:
            for line in read_lines(stream):
                record = record_of(line)
                if isinstance(record, dict):
                    collectors[step_of_record(record, file)].add(record)
                elif record is not None:
                    collectors[unknown_step].unreadable += 1
    except (DumpReadError, OSError):  # the rest of the file counts as one bad line; `check` has details
        collectors[unknown_step].unreadable += 1


def step_stats(
    dump: Dump,
    steps: Collection[int] | None = None,
    workers: int = 1,
    on_progress: OnProgress = ignore_progress,
) -> Iterator[StepStats]:
    """Yield the figures of each step (of some steps, or all) in ascending order.

    `on_progress` is called with the bytes processed since its last call.
    """
    files = [file for file in dump.files if steps is None or file.step is None or file.step in steps]
    for some in for_files(collect_files, files, workers, on_progress):
        yield from (figures for figures in some if steps is None or figures.step in steps)
