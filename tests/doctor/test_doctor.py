"""The doctor: each check, and what a user is told of every mistake that verl's command line allows."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("verl")
pytestmark = pytest.mark.verl

from verl_rollout_dump.doctor import checks  # noqa: E402
from verl_rollout_dump.doctor.directory_check import directory_check  # noqa: E402
from verl_rollout_dump.doctor.probe import Probe, run_probe  # noqa: E402

TRAINERS = ["RayPPOTrainer", "PPOTrainer", "SeparateRayPPOTrainer", "OneStepOffRayTrainer", "FullyAsyncTrainer"]


def outcomes(found):
    return [(check.name, check.outcome) for check in found]


def test_a_dump_that_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-m", "verl_rollout_dump.cli", "doctor", "--json"]
    done = subprocess.run(
        [*command, "trainer.rollout_data_dir=out/rollouts", "+rollout_dump=default"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    told = json.loads(done.stdout)
    assert (done.returncode, told["ok"]) == (0, True), told
    names = [check["name"] for check in told["checks"]]
    assert names == [
        *("verl", "hydra-core", "decoding", "way of loading", "plugin"),
        *(f"trainer {name}" for name in TRAINERS),
        *("config", "directory"),
    ]
    assert str(tmp_path / "out/rollouts") in told["checks"][-1]["found"]
    assert list(tmp_path.iterdir()) == []  # it leaves nothing behind


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    shared = tmp_path_factory.mktemp("sweep") / "shared"
    node = "rollout_dump/serialization=early_convert,str_fallback"
    return shared, run_probe(["-m", f"trainer.rollout_data_dir={shared}", "+rollout_dump=default", node])


def test_a_sweep_into_one_directory_is_found(sweep):
    shared, probe = sweep
    (check,) = checks.directory_checks(probe)
    assert check.outcome == "wrong"
    assert check.found == f"2 jobs of the sweep would write to {shared}"
    assert check.remedy.endswith("+rollout_dump=default rollout_dump/path=per_run")
    assert not shared.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["+rollout_dump=defalt"], "Could not find 'rollout_dump/defalt'"),
        (
            ["+rollout_dump=default", "rollout_dump.serialization=str_fallback"],
            "Did you mean rollout_dump/serialization=str_fallback?",
        ),
        (["+rollout_dump.writer.fsink=true"], "Did you mean 'rollout_dump.writer.fsync'?"),
        (["trainer.rollout_dat_dir=x"], "Could not override 'trainer.rollout_dat_dir'"),
    ],
)
def test_mistakes_of_the_command_line_are_told(arguments, said):
    probe = run_probe(arguments)
    wrong = [check for check in checks.config_checks(probe, arguments) if check.outcome == "wrong"]
    assert len(wrong) == 1 and said in wrong[0].found


def told(**node):
    paths = {"dir": None, "validation_dir": None, **node.pop("path", {})}
    return Probe([{"node": {"enabled": True, "path": paths, **node}, "composed": True}], "")


def test_a_dump_that_goes_nowhere_or_is_off():
    (nowhere,) = checks.directory_checks(told())
    assert (nowhere.outcome, nowhere.remedy) == ("wrong", "add trainer.rollout_data_dir=DIR")
    (off,) = checks.directory_checks(told(enabled=False))
    assert "rollout_dump.enabled is false" in off.found


def test_a_directory_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    (check,) = checks.directory_checks(told(path={"dir": str(tmp_path / "file/dump")}))
    assert check.outcome == "wrong" and "Not a directory" in check.found


def test_a_remote_store_is_not_taken_for_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (check,) = checks.directory_checks(told(path={"dir": "s3://bucket/run"}))
    assert (check.outcome, check.found[:31]) == ("note", "s3://bucket/run is a remote sto")
    assert list(tmp_path.iterdir()) == []


def test_the_directory_is_left_as_it_was(tmp_path):
    found, fault = directory_check(tmp_path / "a/b")
    assert fault == "" and "one record written and read back" in found
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "1.jsonl").write_text('{"input": "theirs"}\n')
    directory_check(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["1.jsonl"]


@pytest.mark.parametrize(
    ("verl", "variables", "outcome", "said"),
    [
        ("0.9.1", {}, "ok", "the entry point verl.plugins"),
        ("0.9.1", {"VERL_USE_EXTERNAL_PLUGINS": "none"}, "wrong", "VERL_USE_EXTERNAL_PLUGINS=none"),
        ("0.9.1", {"VERL_USE_EXTERNAL_PLUGINS": "other, verl_rollout_dump"}, "ok", "entry point"),
        ("0.8.0", {}, "wrong", "verl 0.8.0 knows no plugins"),
        ("0.8.0", {"VERL_USE_EXTERNAL_MODULES": "x,verl_rollout_dump.plugin"}, "ok", "VERL_USE_EXTERNAL_MODULES"),
    ],
)
def test_the_way_of_loading(monkeypatch, verl, variables, outcome, said):
    for name in ("VERL_USE_EXTERNAL_PLUGINS", "VERL_USE_EXTERNAL_MODULES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    check = checks.way_of_loading(verl)
    assert check.outcome == outcome and said in check.found


def test_versions_and_neighbours():
    assert checks.in_range("hydra-core", "1.4.0", checks.SUPPORTED_HYDRA).outcome == "wrong"
    assert checks.in_range("hydra-core", "1.3.2", checks.SUPPORTED_HYDRA).outcome == "ok"
    assert checks.in_range("verl", "0.5.0", checks.SUPPORTED_VERL).outcome == "wrong"
    assert [check.outcome for check in checks.trl_check("1.16.0")] == ["wrong"]
    assert not list(checks.trl_check("1.12.0")) and not list(checks.trl_check(None))


def test_what_decodes(monkeypatch):
    assert (checks.decoding_check().outcome, checks.decoding_check().found) == ("ok", "in C")
    monkeypatch.setattr(checks.native, "library", None)
    assert checks.decoding_check().outcome == "note"
    assert "C compiler" in checks.decoding_check().remedy


def test_a_trainer_that_is_not_hooked():
    seams = [{"trainer": "m.PPOTrainer", "hooked": False}, {"trainer": "m.Other", "hooked": None, "why": "no such"}]
    found = list(checks.seam_checks(Probe([{"seams": seams}], "")))
    assert outcomes(found) == [("trainer PPOTrainer", "wrong"), ("trainer Other", "note")]
    assert checks.plugin_check(Probe([], "ImportError: x")).outcome == "wrong"
