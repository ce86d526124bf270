"""What a check finds, kind by kind, and nothing else."""

import json

import pytest

from verl_rollout_dump.analysis.check import KINDS, check_dump
from verl_rollout_dump.reader import open_dump


def found(dump):
    return {finding.kind: finding for finding in check_dump(open_dump(dump))}


def line(**fields):
    return json.dumps({"input": "p", "output": "o", "score": 1, **fields}).encode() + b"\n"


GOOD = line(output="a")


def test_a_good_dump_has_no_findings(small_dump):
    (small_dump / "10.jsonl").rename(small_dump / "3.jsonl")
    text = (small_dump / "3.jsonl").read_text().replace('"step": 10', '"step": 3')
    (small_dump / "3.jsonl").write_text(text)
    assert found(small_dump) == {}


@pytest.mark.parametrize(
    ("content", "kinds"),
    [
        (GOOD + b'{"inp', {"torn"}),
        (GOOD + b"garbage\n", {"not JSON"}),
        (GOOD + b"[1]\n", {"not an object"}),
        (b"", {"empty file"}),
        (GOOD.replace(b"1}", b"NaN}"), {"NaN"}),
        (GOOD.replace(b"1}", b"-Infinity}"), {"NaN"}),
        (GOOD.replace(b'"a"', b'"\xff"'), {"not UTF-8"}),
        (GOOD.replace(b'"a"', rb'"\ud800"'), {"not UTF-8"}),
        (b"\xef\xbb\xbf" + GOOD, {"BOM"}),
        (GOOD[:-1] + b"\r\n", {"CRLF"}),
        (GOOD + b"\n", {"blank line"}),
        (GOOD[:-1], {"no line feed"}),
        (GOOD + GOOD, {"doubled record"}),
        (line(uid="a_0_0") + line(uid="a_0_0", output="b"), set()),  # a uid of a prompt, not of a rollout
        (GOOD + line(extra=1), {"different keys"}),
        (GOOD + line(score="high"), {"different types"}),
        (line(score=True) + line(score=1.5) + line(score=None), set()),
        (line(x={"$marker": {"type": "C", "reason": "unknown"}}), {"marker"}),
        (line(step=2), {"wrong step"}),
        (line(n="3"), {"stringified"}),
        (line(n="3") + line(n="three"), set()),
        (line(gts="3", pred="4", uid="5"), set()),  # texts by nature
        (line(acc="True"), {"stringified"}),
        (line(t="tensor([1., 2.])"), {"stringified"}),
        (line(nested={"t": ["tensor(3)"]}), {"stringified"}),
        (line(t="tensor([0, 1, ..., 8])"), {"elided"}),
    ],
)
def test_kinds(write_step, content, kinds):
    assert found(write_step("1.jsonl", content)).keys() == kinds


def test_uids_of_rollouts_are_told_apart_from_those_of_prompts_by_run_json(write_step):
    dump = write_step("1.jsonl", line(uid="a_0_0") + line(uid="a_0_0", output="b"))
    (dump / "run.json").write_text(json.dumps({"uid_form": "{uid}_{session}_{output}"}))
    assert found(dump).keys() == {"doubled uid"}


def test_between_files(write_step, make_record):
    for name, count in (("1.jsonl", 2), ("2.jsonl", 2), ("5.jsonl", 3), ("5-again.jsonl", 2)):
        dump = write_step(name, [make_record(int(name[0]), i, output=name + str(i)) for i in range(count)])
    (dump / "6.jsonl.tmp").write_bytes(b"")
    findings = found(dump)
    assert findings.keys() == {"gap", "doubled step", "uneven steps", "leftover"}
    assert findings["gap"].message == "steps 3-4 are missing"
    assert findings["doubled step"].message == "step 5 is in 5-again.jsonl, 5.jsonl"
    assert findings["uneven steps"].message == "steps 5 do not have 2 records, as most have"


def test_every_tenth_step_has_no_gaps(write_step):
    for step in (10, 20, 30):
        dump = write_step(f"{step}.jsonl", GOOD)
    assert found(dump) == {}


def test_against_run_json(write_step):
    run = {
        "state": "failed",
        "attempts": [{"attempt": 1, "steps": "1-3"}],
        "report": {"steps_failed": [4], "steps_dropped": [5]},
    }
    write_step("run.json", json.dumps(run).encode())
    findings = found(write_step("1.jsonl", GOOD))
    assert {kind: finding.message for kind, finding in findings.items() if kind != "run failed"} == {
        "missing step": "steps 2-3 were written and are gone",
        "lost step": "steps 4-5 failed or were dropped",
    }


def test_a_broken_run_json(write_step):
    write_step("run.json", b"{")
    assert found(write_step("1.jsonl", GOOD)).keys() == {"broken run.json"}


def test_where_and_count(write_step):
    finding = found(write_step("1.jsonl", GOOD + b"bad\n" * 3))["not JSON"]
    assert (finding.severity, finding.count, finding.where) == ("error", 3, "1.jsonl, line 2: 'bad'")


def test_a_cut_archive_is_unreadable(write_step):
    assert found(write_step("1.jsonl.gz", b"\x1f\x8b\x08")).keys() == {"unreadable", "empty file"}


def test_every_kind_has_a_severity():
    assert {kind.severity for kind in KINDS.values()} == {"error", "warning"}
