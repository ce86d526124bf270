"""A clean copy: what changes, what stays byte for byte, and the report of it."""

import json

import pytest

from verl_rollout_dump.analysis.check import check_dump
from verl_rollout_dump.analysis.repair import repair_dump
from verl_rollout_dump.analysis.stringified import READ_BACK, TEXT_ELIDED, TEXT_TENSOR, text_kind
from verl_rollout_dump.reader import DumpReadError, open_dump


@pytest.fixture
def repaired(write_step, tmp_path):
    def repair(content):
        dump = write_step("1.jsonl", content)
        report = repair_dump(open_dump(dump), tmp_path / "clean")
        assert (dump / "1.jsonl").read_bytes() == content
        return (tmp_path / "clean" / "1.jsonl").read_bytes(), report

    return repair


def test_good_lines_are_copied_byte_for_byte(repaired):
    content = b'{ "a" : 1.0e2, "b": "\\u00e9", "n": 123456789012345678901234567890}\n{"a": 2, "b": "x", "n": 1}\n'
    clean, report = repaired(content)
    assert clean == content
    assert (report.records, dict(report.changes), report.left_out) == (2, {}, [])


def test_lines(repaired, tmp_path):
    clean, report = repaired(b'\xef\xbb\xbf{"a": 1}\r\n{"a": NaN}\nbad\n\n{"a": [Infinity, "\xff"]}\n{"a":')
    assert clean == '{"a": 1}\n{"a":null}\n{"a":[null,"\ufffd"]}\n'.encode()
    assert dict(report.changes) == {
        "BOM removed": 1,
        "carriage return removed": 1,
        "NaN or Infinity to null: a": 1,
        "NaN or Infinity to null: a[]": 1,
    }
    assert [(problem.kind, problem.line) for problem in report.left_out] == [("not JSON", 3), ("torn", 6)]
    assert json.loads((tmp_path / "clean" / "repair.json").read_bytes()) == report.as_json()


@pytest.mark.parametrize(
    ("values", "clean"),
    [
        (["3", "-4"], [3, -4]),
        (["0.5", "nan", None], [0.5, None, None]),
        (["3", 4], [3, 4]),
        (["3", "three"], ["3", "three"]),
        (["007"], ["007"]),
        (["3.10", "2.5"], ["3.10", "2.5"]),  # str() makes no "3.10": somebody wrote it so
        (["1e5"], ["1e5"]),
        (["-0"], ["-0"]),
        (["1e-05", "2.0", "inf"], [1e-05, 2.0, None]),
        (["0.1", "0.100000024"], [0.1, 0.100000024]),  # the shortest texts of a float64 and of a float32
        (["True", "False", None], [True, False, None]),
        (["True", "maybe"], ["True", "maybe"]),
        (["tensor([1., 2.])", "tensor([[1, 2],\n        [3, 4]], device='cuda:0')"], [[1.0, 2.0], [[1, 2], [3, 4]]]),
        (["tensor(3)", "5"], [3, 5]),
        (["[1 2\n 3]"], [[1, 2, 3]]),
        (["tensor([0, ..., 9])"], ["tensor([0, ..., 9])"]),
    ],
)
def test_texts_come_back_where_no_other_reading_is_left(repaired, values, clean):
    content = b"".join(json.dumps({"x": value, "nested": {"x": value}}).encode() + b"\n" for value in values)
    lines = [json.loads(line) for line in repaired(content)[0].splitlines()]
    assert lines == [{"x": value, "nested": {"x": value}} for value in clean]


def test_answers_stay_text(repaired):
    content = b'{"gts": "4", "pred": "5", "uid": "6", "output": "7", "reward_model": {"ground_truth": "8"}}\n'
    assert repaired(content)[0] == content


@pytest.mark.parametrize("text", ["tensor(nan)", "tensor([True, False])", "array([1, 2])", "[[1. 2.]\n [3. 4.]]"])
def test_whole_tensors(text):
    assert text_kind(text) == TEXT_TENSOR
    READ_BACK[TEXT_TENSOR](text)


@pytest.mark.parametrize("text", ["tensor([1, ..., 2])", "[0 1 ... 8 9]"])
def test_elided(text):
    assert text_kind(text) == TEXT_ELIDED


@pytest.mark.parametrize("text", ["", "a", "[a b]", "tensor", "1 2", "0x10", "True ", "[]", "nano"])
def test_other_texts(text):
    assert text_kind(text) is None


def test_a_file_without_records_is_left_out(write_step, tmp_path):
    write_step("1.jsonl", b'{"a": 1}\n')
    report = repair_dump(open_dump(write_step("2.jsonl", b'{"a"')), tmp_path / "clean")
    assert sorted(path.name for path in (tmp_path / "clean").iterdir()) == ["1.jsonl", "repair.json"]
    assert dict(report.changes) == {"file without records left out": 1}


def test_the_copy_is_clean_and_never_in_place(write_step, tmp_path):
    dump = write_step("1.jsonl", b'{"acc": "True", "score": NaN}\n{"a')
    with pytest.raises(DumpReadError, match="not empty"):
        repair_dump(open_dump(dump), dump)
    repair_dump(open_dump(dump), tmp_path / "clean")
    assert check_dump(open_dump(tmp_path / "clean")) == []
