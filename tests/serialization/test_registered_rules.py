"""`register_rule`: a user's own types, from code and from the entry point of a package."""

import json
import os
import subprocess
import sys
import textwrap
from enum import Enum

import numpy as np
import pytest

from verl_rollout_dump import register_rule
from verl_rollout_dump.config.schema import SerializationConfig, Strategy, Unknown
from verl_rollout_dump.serialization import ConversionReport, Serializer, unregister_rule


class Verdict:
    def __init__(self, ok):
        self.ok = ok

    def as_dict(self):
        return {"ok": self.ok, "n": np.int64(3)}


class Strict(Verdict):
    pass


class Color(Enum):
    RED = "r"


@pytest.fixture
def register():
    registered = []

    def call(kind, *arguments, **options):
        registered.append(kind)
        register_rule(kind, *arguments, **options)

    yield call
    for kind in registered:
        unregister_rule(kind)


def convert(value, strategy=Strategy.early_convert, **config):
    report = ConversionReport()
    serializer = Serializer(SerializationConfig(strategy=strategy, **config))
    return serializer.convert_column("v", [value], report)[0], report.as_list()


def counted(report, rule):
    return [(entry["type"], entry["count"], entry["lossy"]) for entry in report if entry["rule"] == rule]


@pytest.mark.parametrize("kind", [Verdict, f"{__name__}.Verdict"])
def test_a_method_by_name(register, kind):
    register(kind, "as_dict")
    value, report = convert(Verdict(np.bool_(True)))
    assert value == {"ok": True, "n": 3}
    assert counted(report, f"{__name__}.Verdict") == [(f"{__name__}.Verdict", 1, False)]


def test_under_str_fallback_the_form_is_kept_and_what_is_in_it_is_text(register):
    register(Verdict, "as_dict")
    value, report = convert(Verdict(True), Strategy.str_fallback)
    assert value == {"ok": True, "n": "3"}
    assert counted(report, f"{__name__}.Verdict") == [(f"{__name__}.Verdict", 1, False)]


def test_a_function_a_name_and_advice(register):
    register(Verdict, lambda verdict: f"ok={verdict.ok}", name="verdict", instead="return a bool")
    value, report = convert(Verdict(False))
    assert (value, counted(report, "verdict")) == ("ok=False", [(f"{__name__}.Verdict", 1, True)])


def test_subclasses_follow_and_the_nearest_rule_wins(register):
    register(Verdict, lambda verdict: "verdict")
    assert convert(Strict(True))[0] == "verdict"
    register(Strict, lambda verdict: "strict")
    assert (convert(Strict(True))[0], convert(Verdict(True))[0]) == ("strict", "verdict")


def test_a_type_of_the_table_gets_another_form(register):
    assert convert(Color.RED)[0] == "r"
    register(Color, lambda color: color.name)
    assert convert(Color.RED)[0] == "RED"
    assert convert(Color.RED, Strategy.str_fallback)[0] == "RED"


def test_a_serializer_that_has_met_the_type_learns_the_rule(register):
    serializer = Serializer(SerializationConfig())
    report = ConversionReport()
    assert "$marker" in serializer.convert_value("v", Verdict(True), report)
    register(Verdict, "as_dict")
    assert serializer.convert_value("v", Verdict(True), report) == {"ok": True, "n": 3}


def test_a_rule_that_raises_gives_a_marker(register):
    register(Verdict, lambda verdict: 1 / 0)
    value, report = convert(Verdict(True))
    assert value == {"$marker": {"type": f"{__name__}.Verdict", "reason": "conversion raised ZeroDivisionError"}}
    assert counted(report, "failed") == [(f"{__name__}.Verdict", 1, True)]


def test_a_rule_that_returns_its_own_type_ends(register):
    register(Verdict, lambda verdict: Verdict(verdict.ok))
    value, _ = convert(Verdict(True), max_depth=5)
    assert value["$marker"]["reason"] == "nested deeper than max_depth 5"


def test_a_registered_type_passes_the_strictest_config(register):
    register(Verdict, "as_dict")
    assert convert(Verdict(True), unknown=Unknown.error)[0] == {"ok": True, "n": 3}


@pytest.mark.parametrize("kind", [int, dict, str, np.float32, list, "numpy.ndarray"])
def test_fixed_types_are_refused(kind):
    with pytest.raises(ValueError, match="the form of this type is fixed; register a subclass of it"):
        register_rule(kind, str)


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="expected a function or the name of a method"):
        register_rule(Verdict, 3)


PACKAGE = """
    from verl_rollout_dump import register_rule

    class Answer:
        def __init__(self, text):
            self.text = text

    def register():
        register_rule("answers.Answer", lambda answer: {"text": answer.text}, name="answer")
"""
SCRIPT = """
    import sys
    from answers import Answer
    from verl_rollout_dump import RolloutBatch, RolloutDumpCallback

    with RolloutDumpCallback.from_config({"path": {"dir": "out"}}) as dump:
        dump.on_rollout_end(RolloutBatch(1, ["p"], ["r"], [1.0], extras={"answer": [Answer("42")]}))
    print(sum(entry["count"] for entry in dump.report.conversions if entry["rule"] == "answer"))
"""


@pytest.fixture
def site(tmp_path):
    """A folder with an installed package whose entry point registers a rule."""
    folder = tmp_path / "site"
    info = folder / "answers-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "answers.py").write_text(textwrap.dedent(PACKAGE))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: answers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[verl_rollout_dump.rules]\nanswers = answers:register\n")
    return folder


def run(site, folder, code=SCRIPT):
    paths = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=folder, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_the_entry_point_of_a_package(site, tmp_path):
    done = run(site, tmp_path)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert json.loads((tmp_path / "out/1.jsonl").read_text())["answer"] == {"text": "42"}


def test_an_entry_point_that_fails_is_named_at_start(site, tmp_path):
    (site / "answers.py").write_text("def register():\n    raise KeyError('x')\n\nclass Answer:\n    pass\n")
    done = run(site, tmp_path)
    assert done.returncode != 0
    assert "the entry point 'answers' of the group verl_rollout_dump.rules (answers:register) cannot" in done.stderr
