"""What Hydra knows of a process: the start folder, and the overrides that part the jobs of a sweep."""

from types import SimpleNamespace

import pytest

from verl_rollout_dump.config import hydra_job
from verl_rollout_dump.config.urls import absolute


@pytest.fixture
def hydra(monkeypatch):
    """Let this process look as if Hydra ran a job in it."""

    def pretend(choices=(), task=(), sources=("verl_rollout_dump.conf",), cwd="/start"):
        runtime = SimpleNamespace(
            choices=dict(choices), config_sources=[SimpleNamespace(path=path) for path in sources], cwd=cwd
        )
        pretended = SimpleNamespace(runtime=runtime, overrides=SimpleNamespace(task=list(task)), mode=None)
        monkeypatch.setattr(hydra_job, "_hydra_config", lambda: pretended)

    return pretend


def test_relative_directories_start_where_the_user_did(hydra, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert absolute("out") == f"{tmp_path}/out"
    hydra(cwd="/start")  # hydra.job.chdir=true
    assert (absolute("out"), absolute("/out"), absolute("s3://b/out")) == ("/start/out", "/out", "s3://b/out")


@pytest.mark.parametrize(
    ("pretended", "expected"),
    [
        ({}, "add +rollout_dump=default rollout_dump/path=per_run"),
        ({"choices": {"rollout_dump": "default", "rollout_dump/path": "trainer_dir"}}, "add rollout_dump/path=per_run"),
        (
            {"sources": ["app"]},
            "add hydra.searchpath=[pkg://verl_rollout_dump.conf] +rollout_dump=default rollout_dump/path=per_run",
        ),
        (
            {
                "choices": {"rollout_dump": "default", "rollout_dump/path": "per_run"},
                "task": ["rollout_dump/path=per_run", "rollout_dump.path.dir=x"],
            },
            "leave out rollout_dump.path.dir=x, which replaces the directory of each job",
        ),
    ],
)
def test_the_overrides_that_part_jobs_fit_the_command_line(hydra, pretended, expected):
    hydra(**pretended)
    assert hydra_job.own_directory_remedy() == expected
