"""No file, whatever is in it, makes reading fail in another way than by saying so."""

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from verl_rollout_dump.analysis.check import check_dump
from verl_rollout_dump.analysis.repair import repair_dump
from verl_rollout_dump.analysis.stats import step_stats
from verl_rollout_dump.reader import open_dump

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["3", "True", "[1 2]"]),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=4), values, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["input", "output", "score", "step", "uid", "gts", "x", "finish_reason", "$bytes"])
RECORDS = st.dictionaries(NAMES, JSON_VALUES, max_size=6).map(lambda record: json.dumps(record).encode())
LINES = st.lists(RECORDS | st.binary(max_size=30), max_size=6)


@settings(max_examples=150, deadline=None)
@given(lines=LINES, end=st.sampled_from([b"", b"\n", b"\r\n"]), name=st.sampled_from(["1.jsonl", "all.jsonl"]))
def test_reading_never_breaks(lines, end, name):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dump"
        path.mkdir()
        (path / name).write_bytes(b"\n".join(lines) + end)
        dump = open_dump(path)
        records = list(dump.rows())
        assert len(dump) == len(records)
        for row in records:
            assert str(dump.raw_record(row.step, row.index)) == str(row.record)
        assert sum(stats.records for stats in step_stats(dump)) == len(records)
        check_dump(dump)
        report = repair_dump(dump, Path(folder) / "clean")
        assert report.records == len(records)
        if records:
            clean = open_dump(Path(folder) / "clean")
            assert len(clean) == len(records)
            bad = {"torn", "not JSON", "not an object", "NaN", "not UTF-8", "BOM", "CRLF", "no line feed", "blank line"}
            assert {finding.kind for finding in check_dump(clean)} & bad == set()
