"""Compute the figures of steps in one pass over their records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Any

from verl_rollout_dump.analysis.stats.figures import StepStats, summarize
from verl_rollout_dump.analysis.stats.truncation import is_truncated
from verl_rollout_dump.analysis.stats.unknown import why_unknown
from verl_rollout_dump.reader import Dump, DumpFile, DumpReadError, FieldNames, Record, Row
from verl_rollout_dump.reader.errors import FileGoneError
from verl_rollout_dump.reader.field_names import ABSENT, DEFAULT_FIELDS, fields_with_roles, text_of_value
from verl_rollout_dump.reader.index import NO_STEP, step_of_record
from verl_rollout_dump.reader.lines import read_lines
from verl_rollout_dump.reader.parallel import OnProgress, for_files, ignore_progress
from verl_rollout_dump.reader.parsing import record_of
from verl_rollout_dump.reader.streams import open_stream

_NUMBERS = frozenset((int, float, bool))


class _GroupScores:
    """The scores of groups: what their rollouts share -> the different scores, None for a null score."""

    def __init__(self) -> None:
        self.scores: defaultdict[Any, set[float | None]] = defaultdict(set)
        self.sizes: Counter[Any] = Counter()

    def add(self, key: Any, score: float | None) -> None:
        """Add a rollout."""
        self.scores[key].add(score)
        self.sizes[key] += 1

    @property
    def groups(self) -> list[set[float | None]]:
        """The scores of the groups with two or more rollouts."""
        return [self.scores[key] for key, size in self.sizes.items() if size > 1]


class StepCollector:
    """Accumulates the records of one step. Keeps numbers and hashes, no texts."""

    def __init__(self, fields: FieldNames = DEFAULT_FIELDS) -> None:
        self._fields = fields
        self.records = 0
        self.unreadable = 0
        self.numbers: defaultdict[str, list[float]] = defaultdict(list)
        self.scores: list[float] = []
        self.lengths: list[int] = []
        self.empty = 0
        self.responses: Counter[int] = Counter()
        self.cut: list[bool] = []
        self.by_group = _GroupScores()
        self.by_prompt = _GroupScores()
        self.example: Record = {}  # a record without a score or a response, to say why

    def add(self, record: Record) -> None:
        """Add a record."""
        self.records += 1
        score = self._fields.score_of(record)
        if score is not None:
            self.scores.append(score)
        elif not self.example:
            self.example = record
        self._add_response(record)
        self._add_to_groups(record, score)
        self._add_extras(record)
        cut = is_truncated(record)
        if cut is not None:
            self.cut.append(cut)

    def _add_response(self, record: Record) -> None:
        value = self._fields.find(record, "response")
        if value is ABSENT:
            self.example = record
            return
        response = text_of_value(value)
        self.lengths.append(len(response))
        self.empty += not response or response.isspace()
        self.responses[hash(response)] += 1

    def _add_extras(self, record: Record) -> None:
        taken = fields_with_roles(self._fields, tuple(record))
        for name, value in record.items():
            if name in taken:
                continue
            if type(value) in _NUMBERS:
                self.numbers[name].append(value)
            elif type(value) is dict:
                self._add_nested(name, value)

    def _add_nested(self, name: str, value: Record) -> None:
        for key, item in value.items():
            if type(item) in _NUMBERS:
                self.numbers[f"{name}.{key}"].append(item)

    def _add_to_groups(self, record: Record, score: float | None) -> None:
        prompt = self._fields.find(record, "prompt")
        if prompt is not ABSENT:
            self.by_prompt.add(hash(text_of_value(prompt)), score)
        group = self._fields.group_of(record)
        if group is not None:
            self.by_group.add(group, score)

    @property
    def _groups(self) -> list[set[float | None]] | None:
        """The scores of each group; None if records have neither a group nor a prompt."""
        members = self.by_group.sizes
        is_shared = len(members) < members.total() == self.records
        if is_shared or (self._fields.group is not None and members):
            return self.by_group.groups
        return self.by_prompt.groups if self.by_prompt.sizes else None

    def finish(self, step: int) -> StepStats:
        """Return the figures of the records added."""
        groups = self._groups
        has_scores, total = bool(self.scores), len(self.lengths)
        counted = groups is not None and has_scores
        decided = [scores for scores in groups or () if None not in scores]
        return StepStats(
            step=step,
            records=self.records,
            unreadable_lines=self.unreadable,
            score=summarize(self.scores),
            response_length=summarize(self.lengths),
            empty=self.empty / total if total else None,
            duplicated=sum(n for n in self.responses.values() if n > 1) / total if total else None,
            truncated=sum(self.cut) / len(self.cut) if self.cut else None,
            groups=None if groups is None else len(groups),
            groups_without_signal=sum(len(scores) == 1 for scores in decided) if counted else None,
            groups_undecided=len(groups) - len(decided) if groups is not None and has_scores else None,
            null_scores=self.records - len(self.scores) if has_scores else None,
            extras={name: summarize(values) for name, values in self.numbers.items()},
            unknown=self._unknown(has_scores, bool(total), groups is not None),
        )

    def _unknown(self, has_scores: bool, has_responses: bool, has_groups: bool) -> dict[str, str]:
        known = {"score": has_scores, "response": has_responses, "group": has_groups}
        if not self.records:
            return {}
        return {role: why_unknown(self._fields, role, self.example) for role, is_known in known.items() if not is_known}


def collect_files(files: list[DumpFile], fields: FieldNames = DEFAULT_FIELDS) -> list[StepStats]:
    """Return the figures of the steps in some files, sorted by step."""
    collectors: defaultdict[int, StepCollector] = defaultdict(lambda: StepCollector(fields))
    for file in files:
        _collect_file(file, collectors)
    return [collector.finish(step) for step, collector in sorted(collectors.items())]


def collect_rows(rows: Iterable[Row], fields: FieldNames = DEFAULT_FIELDS) -> list[StepStats]:
    """Return the figures of the steps of some records, sorted by step."""
    collectors: defaultdict[int, StepCollector] = defaultdict(lambda: StepCollector(fields))
    for row in rows:
        collectors[row.step].add(row.record)
    return [collector.finish(step) for step, collector in sorted(collectors.items())]


def _collect_file(file: DumpFile, collectors: defaultdict[int, StepCollector]) -> None:
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
    except FileGoneError:  # `Dump.removed_files` names it
        return
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
    if not dump.is_whole:
        yield from collect_rows(dump.rows(steps), dump.fields)
        return
    files = [file for file in dump.files if steps is None or file.step is None or file.step in steps]
    for some in for_files(partial(collect_files, fields=dump.fields), files, workers, on_progress):
        for figures in some:
            if steps is None or figures.step in steps:
                dump.note_unreadable("stats", figures.step, figures.unreadable_lines)
                yield figures
