"""Names of step files, and the step that a name stands for."""

import ast
from pathlib import Path

import pytest

import verl_rollout_dump
from verl_rollout_dump.storage import step_files
from verl_rollout_dump.storage.step_files import files_by_step, other_names, plain_name, step_name, step_of, writers_of


@pytest.mark.parametrize(
    ("template", "step", "name"),
    [
        ("{step}.jsonl", 7, "7.jsonl"),
        ("step{step}_qwen2.jsonl", 3, "step3_qwen2.jsonl"),
        ("{step:06d}.jsonl", 7, "000007.jsonl"),
        ("{step:06d}-{step}.jsonl", 7, "000007-7.jsonl"),
        ("{step:4d}.jsonl", 7, "   7.jsonl"),
        ("v2.{step}.0.jsonl", 12, "v2.12.0.jsonl"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_a_name_is_read_back_as_it_was_written(template, step, name, suffix):
    assert step_name(template, step) == name
    assert step_of(name + suffix, template) == step


@pytest.mark.parametrize("name", ["07.jsonl", "7.jsonl.tmp", "7.json", "a7.jsonl", "7.jsonl.bz2"])
def test_other_names_are_no_steps(name):
    assert step_of(name, "{step}.jsonl") is None


def test_the_last_number_counts_where_the_template_is_unknown():
    assert step_of("run2_step7.jsonl.gz", None) == 7


def test_both_files_of_a_step_whose_compression_changed(tmp_path):
    for name in ("10.jsonl", "2.jsonl", "2.jsonl.gz", "x.jsonl"):
        (tmp_path / name).touch()
    assert {step: [path.name for path in paths] for step, paths in files_by_step(tmp_path, "{step}.jsonl").items()} == {
        2: ["2.jsonl", "2.jsonl.gz"],
        10: ["10.jsonl"],
    }


def test_names_under_other_compressions():
    assert sorted(other_names("7.jsonl.gz")) == ["7.jsonl", "7.jsonl.zst"]
    assert [plain_name(name) for name in ("7.jsonl.gz", "7.jsonl", "7.parquet")] == ["7.jsonl"] * 3
    assert [writers_of(name) for name in ("0003-of-0016", "rollouts")] == [16, 1]


SPELLED_HERE = {
    "run.json", "run.lock", "run.lease", "sweep.json", "reader.index", "repair.json", "superseded", "shards", ".jsonl",
    ".gz", ".zst", ".tmp", ".jsonl.gz", ".jsonl.zst",
}  # fmt: skip
# What the words mean there is another thing: a codec's own suffix, a field of run.json, a choice of the config.
ELSEWHERE = {
    ("storage/compression.py", ".gz"),
    ("storage/compression.py", ".zst"),
    ("storage/attempts.py", "superseded"),
    ("config/validation.py", ".jsonl"),
}


def test_names_are_spelled_in_step_files_alone():
    root = Path(verl_rollout_dump.__file__).parent
    spelled = {
        (str(path.relative_to(root)), node.value)
        for path in root.rglob("*.py")
        if path != Path(step_files.__file__)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in SPELLED_HERE
    }
    assert spelled <= ELSEWHERE
