"""What the report counts, what it warns about, and that it stays small."""

from __future__ import annotations

import json

import numpy as np
from conversion_checks import EARLY, TEXT

from verl_rollout_dump.serialization import ConversionReport


class Opaque:
    pass


class Other:
    pass


def report_of(serializer, **columns):
    report = ConversionReport()
    for field, column in columns.items():
        serializer.convert_column(field, column, report)
    return report


def row(field, path, type_name, rule, lossy, count, first_record):
    return {
        "field": field,
        "path": path,
        "type": type_name,
        "rule": rule,
        "lossy": lossy,
        "count": count,
        "first_record": first_record,
    }


def test_counts_by_field_path_type_and_rule():
    info = [{"n": 1}, {"n": np.int64(1), "scores": [np.float32(1), np.float32("nan")]}, {"n": np.int64(2)}]
    report = report_of(EARLY, info=info, acc=np.array([True, False]), length=[1, 2])
    assert report.as_list() == [
        row("acc", "", "numpy.bool", "numpy_bool", False, 2, 0),
        row("info", "n", "numpy.int64", "numpy_integer", False, 2, 1),
        row("info", "scores[]", "numpy.float32", "non_finite_null", True, 1, 1),
        row("info", "scores[]", "numpy.float32", "numpy_single", False, 2, 1),
    ]
    assert json.loads(json.dumps(report.as_list())) == report.as_list()
    assert report
    assert not report_of(EARLY, length=[1, 2], text=["a", "b"])


def test_reports_add_up():
    total = ConversionReport()
    first = report_of(EARLY, v=[1.0, float("nan"), {"a": b"x"}], w=[np.int64(1)])
    second = report_of(EARLY, v=[float("nan"), {"a": b"x"}], x=[{1}])
    total.merge(first)
    total.merge(second)
    assert total.as_list() == [
        row("v", "", "float", "non_finite_null", True, 2, 1),
        row("v", "a", "bytes", "bytes", False, 2, 2),
        row("w", "", "numpy.int64", "numpy_integer", False, 1, 0),
        row("x", "", "set", "set", False, 1, 0),
    ]
    assert len(first.as_list()) == 3


def test_one_warning_per_field_and_rule():
    rows = [{"a": 1.0, "b": 1.0}, {"a": float("nan"), "b": np.float32("nan")}, {"a": float("inf"), "b": 1.0}]
    (warning,) = report_of(EARLY, reward=rows, n=[np.int64(1)]).warnings()
    assert (warning.field, warning.rule, warning.path) == ("reward", "non_finite_null", "a")
    assert (warning.count, warning.first_record, warning.types) == (3, 1, ("float", "numpy.float32"))
    assert warning.key == ("reward", "non_finite_null")
    for part in ("'reward'", "at a", "3 x", "record 1", "null", "return finite numbers", "non_finite=string"):
        assert part in warning.message


def test_one_warning_per_type_where_the_type_is_what_is_wrong():
    unknown = report_of(EARLY, v=[Opaque(), Other(), Opaque()]).warnings()
    assert [warning.types for warning in unknown] == [(f"{__name__}.Opaque",), (f"{__name__}.Other",)]
    assert [warning.count for warning in unknown] == [2, 1]
    text = report_of(TEXT, v=[{"a": np.int64(1), "b": {1}}]).warnings()
    assert [warning.key for warning in text] == [("v", "stringified", "numpy.int64"), ("v", "stringified", "set")]


def test_keys_that_are_data_do_not_blow_it_up():
    wide = [{f"key {number}": np.int64(number) for number in range(5_000)}]
    report = report_of(EARLY, v=wide)
    rows = report.as_list()
    assert len(rows) == 65
    assert {row["path"] for row in rows} >= {"key 0", "*"}
    assert sum(row["count"] for row in rows) == 5_000

    tree = [{f"a{x}": {f"b{y}": {f"c{z}": b"" for z in range(40)} for y in range(40)} for x in range(10)}]
    rows = report_of(EARLY, v=tree).as_list()
    assert len(rows) <= 513
    assert "**" in {row["path"] for row in rows}
    assert sum(row["count"] for row in rows) == 16_000

    total = ConversionReport()
    for _ in range(3):
        total.merge(report_of(EARLY, v=tree))
        total.merge(report)
    assert len(total.as_list()) <= 514
    assert sum(row["count"] for row in total.as_list()) == 3 * 21_000

    kinds = [type(f"Kind{number}", (), {})() for number in range(1_000)]
    assert len(report_of(EARLY, v=kinds).as_list()) == 65
    assert max(len(row["path"]) for row in report_of(EARLY, v=[{"k" * 10_000: b""}]).as_list()) < 100


def test_many_fields_are_folded():
    report = ConversionReport()
    for number in range(1_500):
        report.field(f"f{number}")
    EARLY.convert_value("another", b"", report)
    assert report.as_list() == [row("*", "", "bytes", "bytes", False, 1, 0)]
