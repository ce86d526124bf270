"""Write the clean copy."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from verl_rollout_dump.analysis.repair.plan import RepairPlan, plan_repair
from verl_rollout_dump.reader import Dump, DumpFile, DumpReadError, Problem, Record
from verl_rollout_dump.reader.errors import UNREADABLE
from verl_rollout_dump.reader.files import run_records_of
from verl_rollout_dump.reader.lines import BOM, Line, read_lines
from verl_rollout_dump.reader.parallel import OnProgress, ignore_progress, size_of
from verl_rollout_dump.reader.parsing import excerpt, record_of
from verl_rollout_dump.reader.streams import open_stream
from verl_rollout_dump.storage.atomic_files import replacing
from verl_rollout_dump.storage.step_files import REPAIR_REPORT, plain_name


@dataclass
class RepairReport:
    """The changes, counted, and the lines that were left out."""

    records: int = 0
    files: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    left_out: list[Problem] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values, as `repair.json` holds it."""
        return {
            "files": self.files,
            "records": self.records,
            "changes": dict(self.changes.most_common()),
            "left_out": [problem.as_json() for problem in self.left_out],
        }


def repair_dump(dump: Dump, target: Path, workers: int = 1, on_progress: OnProgress = ignore_progress) -> RepairReport:
    """Write a clean copy into `target`, which must be new or empty, else `DumpReadError` is raised.

    Reads the dump twice: for the plan (in `workers` processes) and for the copy. `on_progress` is called with the
    bytes processed since its last call.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DumpReadError(f"{target} exists and is not empty; give a new directory for the clean copy")
    plan = plan_repair(dump, workers, on_progress)
    target.mkdir(parents=True, exist_ok=True)
    report = RepairReport()
    for file in dump.files:
        _copy_file(file, _clean_path(file, dump, target), plan, report)
        on_progress(size_of(file))
    for record in run_records_of(dump.path):
        copy = target / record.relative_to(dump.path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(record, copy)
    (target / REPAIR_REPORT).write_bytes(orjson.dumps(report.as_json(), option=orjson.OPT_INDENT_2) + b"\n")
    return report


def _clean_path(file: DumpFile, dump: Dump, target: Path) -> Path:
    """Return the path of the clean copy of a file: plain JSONL, in the same folder of the dump (of a writer or a step).

    If the copy of another file has that path (`7.jsonl` and `7.jsonl.gz`), the old suffix goes in front of the name.
    """
    folder = target if dump.path.is_file() else target / file.path.relative_to(dump.path).parent
    folder.mkdir(parents=True, exist_ok=True)
    name = plain_name(file.path.name)
    path = folder / name
    return folder / f"{file.path.suffix.lstrip('.')}_{name}" if path.exists() else path


def _copy_file(file: DumpFile, target: Path, plan: RepairPlan, report: RepairReport) -> None:
    """Copy the records of a file, if there are any. The copy appears when it is complete."""
    lines = _clean_lines(file, plan, report)
    first = next(lines, None)
    if first is None:
        report.changes["file without records left out"] += 1
        return
    with replacing(target) as temporary, temporary.open("wb") as out:
        for line in chain([first], lines):
            out.write(line + b"\n")
            report.records += 1
    report.files += 1


def _clean_lines(file: DumpFile, plan: RepairPlan, report: RepairReport) -> Iterator[bytes]:
    """Yield the records of a file as clean lines without line feeds."""
    number = offset = 0
    try:
        with open_stream(file.path) as stream:
            for line in read_lines(stream):
                number, offset = line.number, line.offset
                record = record_of(line)
                if isinstance(record, dict):
                    yield _clean_line(line, record, plan, report.changes)
                elif record is not None:
                    report.left_out.append(Problem(file.path, number, offset, record, excerpt(line.data)))
    except DumpReadError as error:
        report.left_out.append(Problem(file.path, number + 1, offset, UNREADABLE, str(error)))


def _clean_line(line: Line, record: Record, plan: RepairPlan, changes: Counter[str]) -> bytes:
    """Return a record as a strict line: its own bytes if they are good, else encoded again."""
    data = line.data.removeprefix(BOM)
    if len(data) < len(line.data):
        changes["BOM removed"] += 1
    if data.endswith(b"\r"):
        changes["carriage return removed"] += 1
        data = data[:-1]
    strict = _is_strict(data)
    before = changes.total()
    clean = plan.apply("", record, changes)
    if strict and changes.total() == before:
        return data
    if changes.total() == before:
        changes["text that is not UTF-8 repaired"] += 1
    return orjson.dumps(clean)


def _is_strict(data: bytes) -> bool:
    """Return whether bytes are strict JSON."""
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True
