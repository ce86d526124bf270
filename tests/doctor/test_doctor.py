"""The doctor: each check, and what a user is told of every mistake that verl's command line allows."""

import json
import subprocess
import sys

import pytest

from verl_rollout_dump import RolloutDumpCallback

pytest.importorskip("verl")
pytestmark = pytest.mark.verl

from verl_rollout_dump.doctor import checks  # noqa: E402
from verl_rollout_dump.doctor.directory_check import directory_check  # noqa: E402
from verl_rollout_dump.doctor.probe import Probe, run_probe, with_overrides  # noqa: E402

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
        *("verl", "hydra-core", "decoding", "loading", "plugin"),
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
    assert check.remedy == "give each job its own: add rollout_dump/path=per_run"
    assert not shared.exists()


@pytest.mark.parametrize(
    ("arguments", "said", "remedy"),
    [
        (["--config-name", "nope"], "MissingConfigException: Cannot find primary config 'nope'.", "give the --config-"),
        (["trainer.rollout_dat_dir=x", "-m"], "Could not override 'trainer.rollout_dat_dir'", "Did you mean trainer."),
        (["a=1", "--jsn"], "error: unrecognized arguments: --jsn", "leave out --jsn"),
    ],
)
def test_mistakes_of_the_command_line_are_told_by_verls_own_app(arguments, said, remedy):
    probe = run_probe(arguments)
    (wrong,) = checks.config_checks(probe, arguments)
    assert wrong.outcome == "wrong" and said in wrong.found and wrong.remedy.startswith(remedy)


def test_flags_may_stand_behind_the_overrides():
    assert with_overrides(["a=1", "b=2", "-m"], ["x=3"]) == ["a=1", "b=2", "x=3", "-m"]
    assert with_overrides(["-m", "--config-name", "ci"], ["x=3"]) == ["-m", "--config-name", "ci", "x=3"]
    assert with_overrides(["--config-name=ci", "a=1"], ["x=3"]) == ["--config-name=ci", "a=1", "x=3"]


def test_flags_of_hydra_go_through_the_command(monkeypatch, run):
    given = []
    monkeypatch.setattr("verl_rollout_dump.doctor.examine", lambda arguments: given.extend(arguments) or [])
    assert run("doctor", "--config-name", "ci", "-m", "a=1", "--json").exit_code == 0
    assert given == ["--config-name", "ci", "-m", "a=1"]


def test_a_warning_is_not_taken_for_the_error():
    stderr = "FutureWarning: Could not find Error handlers\n"
    assert Probe([{"verl": "0.9.1", "plugin_loaded": True}], stderr).error() == ""
    assert Probe([{"verl": "0.9.1"}, {"error": "ValueError: x"}], stderr).error() == "ValueError: x"
    assert Probe([], "warning\nSegmentation fault\n").error() == "Segmentation fault"


def test_without_the_plugin_nothing_is_said_of_trainers_that_were_not_loaded(monkeypatch):
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", "none")
    probe = run_probe([])
    (plugin,) = [checks.plugin_check(probe)]
    assert (plugin.outcome, plugin.found) == ("wrong", "not loaded by `import verl`")
    assert list(checks.seam_checks(probe)) == []


def test_a_verl_that_cannot_be_imported():
    check = checks.plugin_check(Probe([{"import_error": "ImportError: libcuda.so.1"}], "UserWarning: an Error\n"))
    assert check.found == "`import verl` fails. ImportError: libcuda.so.1"


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
    found, fault, _ = directory_check(tmp_path / "a/b")
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
        ("0.8.0", {}, "wrong", "verl 0.8.0 does not load plugins by itself"),
        ("0.8.0", {"VERL_USE_EXTERNAL_MODULES": "x,verl_rollout_dump.plugin"}, "ok", "VERL_USE_EXTERNAL_MODULES"),
    ],
)
def test_the_loading_check(monkeypatch, verl, variables, outcome, said):
    for name in ("VERL_USE_EXTERNAL_PLUGINS", "VERL_USE_EXTERNAL_MODULES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    check = checks.loading_check(verl)
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
    seams = [
        {"trainer": "m.PPOTrainer", "hooked": False, "why": "m.PPOTrainer.fit takes ('x',), expected ('self',)"},
        {"trainer": "m.Other", "hooked": None, "why": "no such"},
    ]
    found = list(checks.seam_checks(Probe([{"seams": seams}], "")))
    assert outcomes(found) == [("trainer PPOTrainer", "wrong"), ("trainer Other", "note")]
    assert found[0].found.endswith("m.PPOTrainer.fit takes ('x',), expected ('self',)")
    assert checks.plugin_check(Probe([], "ImportError: x")).outcome == "wrong"


def test_a_directory_in_which_a_run_is_writing(tmp_path):
    with RolloutDumpCallback.from_config({"path": {"dir": str(tmp_path)}}):
        (check,) = checks.directory_checks(told(path={"dir": str(tmp_path)}))
    assert check.outcome == "wrong" and "another run is writing to " in check.found
    (check,) = checks.directory_checks(told(path={"dir": str(tmp_path)}))
    assert check.outcome == "ok"
