"""The checks: each turns the observations of all files into findings. `_CHECKS` lists them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from verl_rollout_dump.analysis.check.findings import KINDS, Finding
from verl_rollout_dump.analysis.check.observation import FileObservation, observe_files
from verl_rollout_dump.analysis.stringified import TEXT_ELIDED
from verl_rollout_dump.reader import Dump, DumpReadError
from verl_rollout_dump.reader.files import read_run_records, superseded_steps
from verl_rollout_dump.reader.index import NO_STEP
from verl_rollout_dump.reader.parallel import OnProgress, for_files, ignore_progress
from verl_rollout_dump.storage.lineage import missing_parts
from verl_rollout_dump.storage.run_state import dead_runs, unwritten_steps
from verl_rollout_dump.storage.step_files import RUN_RECORD, SHARDS_FOLDER, unfinished_files
from verl_rollout_dump.storage.steps import format_steps, parse_steps

_Observations = list[FileObservation]
_LOST = ("steps_failed", "steps_dropped")  # of the report in run.json
_LOST_OF_ATTEMPT = ("failed", "dropped")


def check_dump(dump: Dump, workers: int = 1, on_progress: OnProgress = ignore_progress) -> list[Finding]:
    """Read a whole dump and return the findings, errors first.

    `on_progress` is called with the bytes processed since its last call.
    """
    observe = partial(observe_files, fields=dump.fields)
    seen = [file for some in for_files(observe, dump.files, workers, on_progress) for file in some]
    findings = [finding for check in _CHECKS for finding in check(dump, seen)]
    order = list(KINDS)
    return sorted(findings, key=lambda finding: (finding.severity, order.index(finding.kind)))


def _lines(dump: Dump, seen: _Observations) -> Iterator[Finding]:
    """Lines with faults, one finding per kind."""
    totals: Counter[str] = Counter()
    first: dict[str, str] = {}
    for file in seen:
        totals += file.lines
        for kind in file.lines:
            first.setdefault(kind, file.first[kind])
    for kind, count in totals.items():
        yield Finding(kind, KINDS[kind].meaning, count, first[kind])


def _empty_files(dump: Dump, seen: _Observations) -> Iterator[Finding]:
    """Files without records."""
    empty = [file.path.name for file in seen if not file.records]
    if empty:
        yield Finding("empty file", KINDS["empty file"].meaning, len(empty), empty[0])


def _steps_in_order(dump: Dump, seen: _Observations) -> Iterator[Finding]:
    """Gaps between steps, and steps in several files."""
    steps = sorted({*_steps_seen(seen), *(file.step for file in seen if file.step is not None)})
    every = _smallest_distance(steps)
    missing = sorted(set(range(steps[0], steps[-1], every)) - set(steps)) if steps else []
    if missing:
        yield Finding("gap", f"steps {format_steps(missing)} are missing", len(missing))
    places: defaultdict[tuple[int, Path], list[Path]] = defaultdict(list)
    for file in seen:
        if file.step is not None:
            places[file.step, file.path.parent].append(file.path)
    for (step, _), paths in places.items():
        if len(paths) > 1:
            names = ", ".join(path.name for path in paths)
            yield Finding("doubled step", f"step {step} is in {names}", len(paths), paths[1].name)


def _steps_seen(seen: _Observations) -> list[int]:
    """Return the steps that have records, ascending."""
    return sorted({step for file in seen for step in file.steps if step != NO_STEP})


def _smallest_distance(steps: list[int]) -> int:
    """Return the smallest distance of two steps: a dump of every 10th step has no gaps."""
    return min((later - earlier for earlier, later in pairwise(steps)), default=1)


def _doubles(dump: Dump, seen: _Observations) -> Iterator[Finding]:
    """Records and uids that occur twice in a file."""
    for kind, name in (("doubled record", "doubled_records"), ("doubled uid", "doubled_uids")):
        files = [file for file in seen if getattr(file, name)]
        if files:
            count = sum(getattr(file, name) for file in files)
            yield Finding(kind, KINDS[kind].meaning, count, files[0].path.name)


def _even_steps(dump: Dump, seen: _Observations) -> Iterator[Finding]:
    """Steps whose number of records differs from the most frequent one."""
    sizes: Counter[int] = Counter()
    for file in seen:
        sizes += file.steps
    usual = Counter(sizes.values()).most_common(1)[0][0] if sizes else 0
    uneven = sorted(step for step, size in sizes.items() if size != usual and step != NO_STEP)
    if uneven:
        message = f"steps {format_steps(uneven)} do not have {usual} records, as most have"
        yield Finding("uneven steps", message, len(uneven), f"step {uneven[0]}: {sizes[uneven[0]]} records")


def _same_keys(dump: Dump, seen: _Observations) -> Iterator[Finding]:
    """Records whose keys differ from the most frequent ones."""
    keys: Counter[tuple[str, ...]] = Counter()
    for file in seen:
        keys += file.keys
    if len(keys) < 2:
        return
    (usual, _), *others = keys.most_common()
    found = next(file.path.name for file in seen if others[0][0] in file.keys)
    names = set(usual).symmetric_difference(others[0][0])
    what = f"{', '.join(sorted(names))} not in all records" if names else "in another order"
    yield Finding("different keys", f"{len(keys)} sets of keys: {what}", sum(n for _, n in others), found)


def _same_types(dump: Dump, seen: _Observations) -> Iterator[Finding]:
    """Fields whose values have several types, or were turned into text."""
    for path, counts in types_of_fields(seen).items():
        yield from _stringified(path, counts, seen)
        kinds = {kind.partition("_")[0] for kind in counts} - {"null"}
        if len(kinds) > 1 and not kinds <= {"number", "boolean"}:
            described = ", ".join(f"{kind} ({count})" for kind, count in counts.most_common())
            rarest = counts.most_common()[-1][1]
            yield Finding("different types", f"{path}: {described}", rarest, path)


def types_of_fields(seen: _Observations) -> dict[str, Counter[str]]:
    """Return how often each field has each type in the whole dump."""
    types: dict[str, Counter[str]] = {}
    for file in seen:
        for path, counts in file.types.items():
            types.setdefault(path, Counter()).update(counts)
    return types


def _stringified(path: str, counts: Counter[str], seen: _Observations) -> Iterator[Finding]:
    """Values of a field that became text. Numbers count only if every text of the field is a number."""
    for kind in [kind for kind in counts if kind.startswith("text_")]:
        if kind in ("text_number", "text_boolean") and counts["text"]:
            continue
        first = next(file.first[f"{kind} {path}"] for file in seen if f"{kind} {path}" in file.first)
        name = "elided" if kind == TEXT_ELIDED else "stringified"
        yield Finding(name, f"{path}: {kind.removeprefix('text_')}s as text", counts[kind], first)


def _run_record(dump: Dump, seen: _Observations) -> Iterator[Finding]:
    """Differences between the `run.json` of every writer and the files."""
    if not dump.path.is_dir():
        return
    try:
        runs = read_run_records(dump.path)
    except DumpReadError as error:
        yield Finding("broken run.json", str(error), where=RUN_RECORD)
        return
    present = _steps_present(dump, seen)
    yield from _written_steps(runs, present)
    yield from _killed_runs(dump, present)
    if any(run.get("state") == "failed" for run in runs):
        yield Finding("run failed", KINDS["run failed"].meaning, where=RUN_RECORD)
    if runs and (lacking := missing_parts(dump.path)):
        yield Finding("missing part", f"steps {format_steps(lacking)} lack files", sum(lacking.values()), SHARDS_FOLDER)


def _steps_present(dump: Dump, seen: _Observations) -> set[int]:
    """Return the steps that have files, including those that a later attempt superseded."""
    with_files = (file.step for file in seen if file.step is not None)
    return {*_steps_seen(seen), *with_files, *superseded_steps(dump.path)}


def _written_steps(runs: list[dict[str, Any]], present: set[int]) -> Iterator[Finding]:
    """Steps that the run wrote but that are missing, and steps that it reports as lost."""
    attempts = [attempt for run in runs for attempt in run.get("attempts") or []]
    written = {step for attempt in attempts for step in parse_steps(attempt.get("steps") or "")}
    missing = sorted(written - present)
    if missing:
        yield Finding("missing step", f"steps {format_steps(missing)} were written and are gone", len(missing))
    reports = [run.get("report") or {} for run in runs]
    lost = {step for report in reports for name in _LOST for step in report.get(name) or []}
    lost |= {step for attempt in attempts for name in _LOST_OF_ATTEMPT for step in parse_steps(attempt.get(name) or "")}
    lost -= present
    if lost:
        yield Finding("lost step", f"steps {format_steps(lost)} failed or were dropped", len(lost), RUN_RECORD)


def _killed_runs(dump: Dump, present: set[int]) -> Iterator[Finding]:
    """Runs that ended without updating `run.json`, and steps that a run was given and did not write."""
    for dead in dead_runs(dump.path):
        yield Finding("run killed", f"the run {dead}", where=RUN_RECORD)
    if lost := unwritten_steps(dump.path) - present:
        yield Finding("unwritten step", f"steps {format_steps(lost)} were handed over and not written", len(lost))


def _leftovers(dump: Dump, seen: _Observations) -> Iterator[Finding]:
    """Temporary files of an attempt that ended."""
    found = unfinished_files(dump.path) if dump.path.is_dir() and not _is_running(dump) else []
    if found:
        yield Finding("leftover", KINDS["leftover"].meaning, len(found), found[0].name)


def _is_running(dump: Dump) -> bool:
    """Return whether a live run is writing into the dump."""
    try:
        return (dump.run or {}).get("state") == "running" and not dead_runs(dump.path)
    except DumpReadError:
        return False


_CHECKS: tuple[Callable[[Dump, _Observations], Iterator[Finding]], ...] = (
    _lines,
    _empty_files,
    _run_record,
    _steps_in_order,
    _doubles,
    _even_steps,
    _same_keys,
    _same_types,
    _leftovers,
)
