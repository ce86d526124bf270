"""What the driver finds before Ray starts; the process around it is a Hydra app in tests/config/test_remedies.py."""

import sys
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from verl_rollout_dump import ConfigError, DumpError, RolloutDumpCallback
from verl_rollout_dump.config.schema import TRAINER_FIELDS
from verl_rollout_dump.integrations.verl import v0, v1
from verl_rollout_dump.integrations.verl.driver import prepare


@pytest.fixture(autouse=True)
def no_ray(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    ray = SimpleNamespace(is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "ray", ray)
    return ray


def config_of(directory, **node):
    trainer = {"rollout_data_dir": str(directory), "validation_data_dir": None}
    return OmegaConf.create({"trainer": trainer, "rollout_dump": node, "ray_kwargs": {"ray_init": {"num_cpus": 1}}})


def test_a_directory_that_cannot_be_used(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(DumpError, match="cannot write rollouts to "):
        prepare(config_of(tmp_path / "file/dump"))
    said = f"rollout_dump: training rollouts will be written to {tmp_path}/file/dump, validation rollouts will not be "
    assert capsys.readouterr().out == said + "(trainer.validation_data_dir is not set)\n"


def test_a_second_live_run(tmp_path):
    prepare(config_of(tmp_path))
    live = RolloutDumpCallback.from_config({"path": {"dir": str(tmp_path)}})
    with live, pytest.raises(DumpError, match="another run is writing to "):
        prepare(config_of(tmp_path))


def test_an_unknown_callback(tmp_path):
    with pytest.raises(ConfigError, match=r"names 'damp', which no installed package .* Did you mean 'dump'\?"):
        prepare(config_of(tmp_path / "new", callbacks=["damp"]))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("variable", "address"), [("10.0.0.1:6379", None), (None, "ray://head:10001")])
def test_the_directories_of_a_cluster_are_left_to_the_trainer(tmp_path, monkeypatch, variable, address):
    if variable:
        monkeypatch.setenv("RAY_ADDRESS", variable)
    config = config_of(tmp_path / "of_the_cluster")
    config.ray_kwargs.ray_init.address = address
    prepare(config)
    assert not (tmp_path / "of_the_cluster").exists()


def test_in_a_process_of_ray_nothing_is_said_again(tmp_path, no_ray, capsys):
    no_ray.is_initialized = lambda: True
    prepare(config_of(tmp_path / "new"))
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "new").exists()


def test_the_config_names_the_fields_of_all_trainers():
    offered = {*v0.V0_TRAINER_FIELDS, "response_length", *v1.V1_TRAINER_FIELDS, *v1.V1_TAGS}
    assert offered == {*TRAINER_FIELDS}
