"""The check that a team's CI runs on its reward function: three of them as users write them, and each part alone."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import make_dataclass
from pathlib import Path

import numpy as np
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from verl_rollout_dump.config import load_config
from verl_rollout_dump.verl_cpu import ci, reward_check
from verl_rollout_dump.verl_cpu.failure import causes
from verl_rollout_dump.verl_cpu.reward_problems import problems_of, put_into_batch, put_into_row

pytestmark = pytest.mark.verl

CHECKOUT = Path(__file__).resolve().parents[2]
REWARDS = Path(__file__).parent / "rewards"
WORKFLOW = CHECKOUT / ".github" / "workflows" / "rollout-check.yml"
ADVICE = "return numbers, text, lists and dicts"


@pytest.fixture
def project(tiny_assets, tmp_path):
    """A folder as a user's checkout, with the model that the check would make there."""
    assets = tmp_path / ".cache" / "verl_cpu"
    assets.mkdir(parents=True)
    (assets / "tiny").symlink_to(tiny_assets)
    return tmp_path


def run(command, folder, **variables):
    """Run a command in a folder; gives the exit code, and what a terminal would have shown."""
    bin_first = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": bin_first, "PYTHONWARNINGS": "ignore", **variables}
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500
    )
    return done.returncode, done.stdout


def dumped(folder, read_strict):
    (rollouts,) = (folder / "outputs" / "ci").glob("*/rollouts")
    files = {path.name: read_strict(path) for path in rollouts.glob("*.jsonl")}
    assert sorted(files) == ["1.jsonl", "2.jsonl"]
    return [record for records in files.values() for record in records]


@pytest.mark.train
def test_mathematics_with_numpy_passes_by_the_one_line(project, read_strict):
    code, shown = run([sys.executable, "-m", "verl_rollout_dump.verl_cpu.ci", REWARDS / "math_numpy.py"], project)
    assert code == 0, shown
    assert shown.splitlines()[-1].startswith("passed: no value was lost; the dump is in ")
    for record in dumped(project, read_strict):
        assert (type(record["acc"]), type(record["n_found"]), type(record["found"])) == (bool, int, list)
        assert len(record["found"]) == min(record["n_found"], 4)
        assert record["target"] == float(record["gts"])
        assert (record["closest"] is None) == (record["n_found"] == 0)


@pytest.mark.train
def test_code_with_nested_results_passes_by_the_step_of_the_workflow(project, read_strict):
    workflow = OmegaConf.to_container(OmegaConf.create(WORKFLOW.read_text().replace("${{", "$ {{")))
    inputs = workflow[True if True in workflow else "on"]["workflow_call"]["inputs"]
    assert list(inputs) == ["reward", "function", "overrides", "install", "python-version"]
    (step,) = [step for step in workflow["jobs"]["rollout-check"]["steps"] if step.get("name") == "check"]
    shutil.copy(REWARDS / "code_nested.py", project / "code.py")
    shutil.copy(project / ".cache" / "verl_cpu" / "tiny" / "train.parquet", project / "questions.parquet")
    overrides = "data.train_files=questions.parquet\n\nrollout_dump.serialization.non_finite=error\n"
    variables = {"REWARD": "code.py", "FUNCTION": "compute_score", "OVERRIDES": overrides}
    assert list(step["env"]) == list(variables)

    code, shown = run(["bash", "-e", "-c", step["run"]], project, **variables)
    assert code == 0, shown
    for record in dumped(project, read_strict):
        assert list(record["cases"]) == ["adds", "adds nothing", "carries"]
        for case in record["cases"].values():
            assert [type(value) for value in case.values()][:3] == [bool, float, list]
            assert case["seconds"] == float(str(np.float32(len(record["output"])) / np.float32(1000)))
        passed = [case["passed"] for case in record["cases"].values()]
        assert (record["passed"], record["all_passed"]) == (sum(passed), all(passed))
        assert record["score"] == pytest.approx(sum(passed) / 3, abs=1e-6)


def test_an_object_is_named_before_anything_is_trained(project):
    command = [sys.executable, "-m", "verl_rollout_dump.verl_cpu.ci", REWARDS / "tensor_and_object.py"]
    code, shown = run(command, project)
    assert code == 1
    assert shown.splitlines()[-3:] == [
        "the reward function returns what would be lost:",
        f"  field 'judge' at verdicts[], record 0: no rule for this type (Verdict); {ADVICE}",
        "failed",
    ]
    assert not (project / "outputs").exists()


@pytest.mark.train
def test_an_object_ends_the_training_too_with_the_cause_in_the_last_lines(project):
    reward = [f"reward.custom_reward_function.path={REWARDS / 'tensor_and_object.py'}"]
    command = [sys.executable, "-m", "verl_rollout_dump.verl_cpu.train", "--model", "tiny", "--config-name", "ci"]
    code, shown = run([*command, *reward, "reward.custom_reward_function.name=compute_score"], project)
    assert code == 1
    _, end = shown.split("what was raised, in order:\n")
    assert len(end.splitlines()) <= 8
    assert "PicklingError: Can't pickle <class 'custom_module_" in end.splitlines()[0]
    assert ".Verdict'>" in end.splitlines()[0]
    assert f"{ADVICE} instead" in end
    assert end.splitlines()[-1].startswith("verl ended with exit code 1; its whole output: ")


# ---- the parts ----


def test_the_config_is_strict():
    node = OmegaConf.to_container(OmegaConf.load(CHECKOUT / "conf" / "ci.yaml"))["rollout_dump"]
    assert (node["on_error"], node["serialization"]["unknown"]) == ("raise", "error")
    assert (node["fields"]["on_mismatch"], node["fields"]["on_missing"]) == ("error", "error")


def strict_rules():
    return load_config({"serialization": {"unknown": "error"}}).serialization


class Local:
    """No rule knows it, and it has no module to be found in."""


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (np.float32(0.5), None),
        ({1: "keys", 2: "that are numbers"}, None),
        (Local(), f"field 'extra', record 0: no rule for this type (test_config_driven_ci.Local); {ADVICE}"),
        ({"a": float("nan")}, "field 'extra' at a, record 0: 1 x float would be written as null (non_finite_null); "),
        (lambda: 1, "would be written as `$marker` with the name (code); "),
    ],
)
def test_problems_of_a_value(value, problem):
    problems = problems_of([{"score": 1.0, "extra": value}], strict_rules(), put_into_row)
    assert len(problems) == (problem is not None)
    assert problem is None or problem in problems[0]


def test_what_verl_cannot_send_is_a_problem_even_where_it_can_be_written():
    verdict = make_dataclass("Verdict", ["reason"], namespace={"__module__": "custom_module_1"})
    (problem,) = problems_of([{"score": 1.0, "judge": verdict("short")}], strict_rules(), put_into_row)
    assert problem.startswith("field 'judge', record 0: verl cannot send it between its processes (")
    assert problem.endswith(ADVICE)
    assert problems_of([{"acc": 1.0}], strict_rules(), put_into_row) == ["field 'score' is missing; verl needs it"]


@pytest.mark.parametrize(
    ("put_score", "score", "refused"),
    [
        (put_into_row, 1, None),
        (put_into_row, np.float64(0.5), None),
        (put_into_row, np.float32(1), "numpy.float32 into its tensor of scores (TypeError: can't assign a numpy."),
        (put_into_row, np.bool_(True), "verl cannot put numpy.bool"),
        (put_into_row, None, "verl takes None for no score at all, and the training ends with KeyError: 'rm_sc"),
        (put_into_row, "1.0", "cannot put str into its tensor of scores (TypeError: can't assign a str to a "),
        (put_into_row, (1.0, {"acc": True}), "cannot put tuple into its tensor of scores (TypeError: can't as"),
        (put_into_batch, np.float32(1), None),
        (put_into_batch, "1.0", "put str into its tensor of scores (ValueError: too many dimensions 'str')"),
        (put_into_batch, [1.0], "cannot put list into its tensor of scores (RuntimeError: shape mismatch: "),
        (put_into_batch, None, "verl takes None for no score at all"),
    ],
)
def test_scores_that_verl_refuses(put_score, score, refused):
    found = problems_of([{"score": 1.0}, {"score": score}], strict_rules(), put_score)
    assert len(found) == (refused is not None), found
    if refused:
        assert found[0].startswith("field 'score', record 1: verl ") and refused in found[0]
        assert found[0].endswith("; return a float, or a dict with a float under 'score'")


def test_columns_that_the_v0_trainer_refuses():
    ragged = [{"score": 1.0, "found": [1, 2]}, {"score": 0.0, "found": [1]}]
    (problem,) = problems_of(ragged, strict_rules(), put_into_batch)
    assert problem.startswith("field 'found': verl's v0 trainer cannot make an array of it (setting an array element")
    assert problems_of(ragged, strict_rules(), put_into_row) == []
    sometimes = [{"score": 1.0, "acc": 1}, {"score": 0.0}]
    (problem,) = problems_of(sometimes, strict_rules(), put_into_batch)
    assert problem == "field 'acc', record 1: it is missing, and verl's v0 trainer raises KeyError; return None there"
    assert problems_of(sometimes, strict_rules(), put_into_row) == []


@pytest.mark.parametrize(
    ("source", "last"),
    [
        ("def compute_score(**kwargs)\n    return 1\n", "{file}, line 1: SyntaxError: expected ':'"),
        ("import nowhere_at_all\n", "{file}, line 1: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("x = 1\n", "AttributeError: Object not found in module: object_name='compute_score', module_path='{file}'."),
        (
            "def compute_score(solution_str, **kwargs):\n    return 1 / len(solution_str)\n",
            "{file}, line 2: ZeroDivisionError: division by zero",
        ),
    ],
)
def test_a_broken_reward_function_ends_with_its_place(project, source, last):
    file = project / "reward.py"
    file.write_text(source)
    code, shown = run([sys.executable, "-m", "verl_rollout_dump.verl_cpu.ci", file.name], project)
    assert code == 2
    assert shown.splitlines()[-1] == last.format(file=file)
    assert not (project / "outputs").exists()


def test_a_score_that_verl_refuses_is_refused_before_anything_is_trained(project):
    (project / "reward.py").write_text("def compute_score(**kwargs):\n    return 1.0, {'acc': True}\n")
    code, shown = run([sys.executable, "-m", "verl_rollout_dump.verl_cpu.ci", "reward.py"], project)
    assert code == 1
    said = "verl cannot put tuple into its tensor of scores (TypeError: can't assign a tuple to a torch.FloatTensor)"
    assert shown.splitlines()[-3:-1] == [
        "the reward function returns what would be lost:",
        f"  field 'score', record 0: {said}; return a float, or a dict with a float under 'score'",
    ]


def test_reward_functions_are_called_as_verl_does():
    async def reward(data_source, solution_str, ground_truth, extra_info):
        return len(solution_str)

    row = {"data_source": "a", "reward_model": {"ground_truth": 12}, "extra_info": None}
    assert reward_check.call(reward, [row]) == [{"score": 2, "acc": 2}, {"score": 0, "acc": 0}]


def test_losses_of_a_dump(tmp_path):
    found = {"field": "acc", "path": "", "lossy": True, "count": 2, "first_record": 1}
    loss = {**found, "type": "float", "rule": "non_finite_null"}
    told = {**found, "type": "int", "rule": "key_to_text"}
    report = {"conversions": [loss, told], "fields": {"acc: wrong length": 3}, "failures": {}, "records_written": 4}
    record = {"state": "failed", "report": {**report, "steps_failed": [2], "steps_dropped": []}}
    (tmp_path / "run.json").write_text(json.dumps(record))
    first, *others = ci.losses_of(tmp_path)
    assert first.startswith(
        "field 'acc', record 1: 2 x float would be written as null (non_finite_null); return finite"
    )
    assert others == ["acc: wrong length, 3 times", "step 2 is missing", "the dump is failed, not complete"]


def test_a_dump_that_is_not_there_is_a_failure(tmp_path, capsys):
    assert ci.judge(tmp_path) == 1
    assert "there is no dump to judge: " in capsys.readouterr().err


def test_paths_pass_through_hydra(tmp_path):
    path = tmp_path / "it's a=b, {c}.py"
    path.write_text("")
    options, overrides = ci.parse([str(path), "--function", "f", "a=1", "+b=2"])
    assert overrides == ["a=1", "+b=2"]
    words = ci.reward_overrides(options.reward, options.function)
    parsed = OverridesParser.create().parse_overrides(words)
    assert [override.value() for override in parsed] == [str(path), "f"]
    assert ci.reward_overrides("pkg://a.b", "f")[0].endswith("='pkg://a.b'")


def test_a_file_that_is_not_there_is_refused(capsys):
    with pytest.raises(SystemExit):
        ci.main(["nowhere.py"])
    assert "there is no file nowhere.py" in capsys.readouterr().err


def test_causes_are_told_once_in_their_order():
    output = """\
(WorkerDict pid=1) UserWarning: torchtitan engine is not available: ModuleNotFoundError("No module named 'x'")
\x1b[36m(AgentLoopWorker pid=7, ip=192.0.2.1)\x1b[0m ValueError: step 1 of 0x7f11 failed
(AgentLoopWorker pid=8) ValueError: step 2 of 0x7f22 failed
ray.exceptions.RayTaskError(KeyError): ray::TaskRunnerV1.run() (pid=1)
verl_rollout_dump.errors.DumpError: step 1 is not dumped
KeyError: 'seq_len'
"""
    assert causes(output) == [
        "ValueError: step 1 of 0x7f11 failed",
        "verl_rollout_dump.errors.DumpError: step 1 is not dumped",
        "KeyError: 'seq_len'",
    ]
