"""The config groups as Hydra composes them, in real processes: an app of its own, sweeps, and every mistake."""

import json
from pathlib import Path

import pytest
import yaml
from test_config import CONTRACT


def composed(done):
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)["rollout_dump"]


def test_the_default_node_is_the_contracts(app):
    assert composed(app("+rollout_dump=default", "--cfg", "job", "--resolve")) == CONTRACT


def test_the_directory_follows_verls_key(app):
    node = composed(app("trainer.rollout_data_dir=out", "+rollout_dump=default", "--cfg", "job", "--resolve"))
    assert node["path"]["dir"] == "out"


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("rollout_dump/serialization=str_fallback", {"serialization": {"strategy": "str_fallback"}}),
        (
            "rollout_dump/fields=core",
            {"fields": {"include": ["input", "output", "gts", "score", "step", "uid", "request_id"]}},
        ),
        ("rollout_dump/fields=text", {"fields": {"include": ["input", "output"]}}),
        ("rollout_dump/fields=tokens", {"fields": {"tokens": True}}),
        ("rollout_dump/writer=inline", {"writer": {"mode": "inline"}}),
        ("rollout_dump/writer=durable", {"writer": {"fsync": True}}),
        ("rollout_dump/sampling=sparse", {"sampling": {"every_n_steps": 10, "max_records": 256}}),
        ("rollout_dump.writer.max_pending=9", {"writer": {"max_pending": 9}}),
        ("rollout_dump.on_error=raise", {"on_error": "raise"}),
    ],
)
def test_groups_and_keys_are_ordinary_overrides(app, override, changed):
    node = composed(app("+rollout_dump=default", override, "--cfg", "job", "--resolve"))
    expected = {
        key: {**value, **changed.get(key, {})} if isinstance(value, dict) else value for key, value in CONTRACT.items()
    }
    assert node == expected | {key: value for key, value in changed.items() if not isinstance(value, dict)}


def test_every_option_of_every_group_loads(app):
    from verl_rollout_dump import load_config

    conf = Path(__file__).parents[2] / "conf/rollout_dump"
    options = [f"rollout_dump/{path.parent.name}={path.stem}" for path in conf.glob("*/*.yaml")]
    assert len(options) >= 13
    for option in options:
        if not option.endswith("per_run"):
            load_config({"rollout_dump": composed(app("+rollout_dump=default", option, "--cfg", "job", "--resolve"))})


def test_a_sweep_over_both_strategies_keeps_its_jobs_apart(app, tmp_path, read_strict):
    done = app(
        "-m",
        "+rollout_dump=default",
        "rollout_dump/path=per_run",
        "rollout_dump/serialization=early_convert,str_fallback",
        "hydra.sweep.dir=sweep",
    )
    assert done.returncode == 0, done.stderr
    native, fallback = (read_strict(tmp_path / f"sweep/{job}/rollouts/1.jsonl")[0] for job in (0, 1))
    assert (native["n"], native["acc"]) == (3, True)
    assert (fallback["n"], fallback["acc"]) == ("3", "True")
    strategies = [
        json.loads((tmp_path / f"sweep/{job}/rollouts/run.json").read_text())["rollout_dump"]["serialization"][
            "strategy"
        ]
        for job in (0, 1)
    ]
    assert strategies == ["early_convert", "str_fallback"]


def test_a_sweep_into_one_directory_is_refused_with_the_remedy(app, tmp_path, read_strict):
    sweep = ["-m", "trainer.rollout_data_dir=shared", "+rollout_dump=default", "+x=1,2", "hydra.sweep.dir=sweep"]
    done = app(*sweep)
    assert done.returncode == 1
    assert "job 1 of this sweep" in done.stderr and "where job 0" in done.stderr
    assert "Give each job a directory of its own: add rollout_dump/path=per_run\n" in done.stderr
    assert len(read_strict(tmp_path / "shared/1.jsonl")) == 1
    assert not (tmp_path / "shared/superseded").exists()
    # the first job of a later sweep may go on where the first one stopped
    assert app(*sweep[:-2], "+x=1", "hydra.sweep.dir=later").returncode == 0
    assert len(read_strict(tmp_path / "shared/superseded/1/1.jsonl")) == 1


def test_the_joblib_launcher_keeps_jobs_apart_too(app, tmp_path, read_strict):
    done = app(
        *("-m", "hydra/launcher=joblib", "+rollout_dump=default", "rollout_dump/path=per_run"),
        *("rollout_dump/serialization=early_convert,str_fallback", "hydra.sweep.dir=sweep"),
    )
    assert done.returncode == 0, done.stderr
    values = [read_strict(tmp_path / f"sweep/{job}/rollouts/1.jsonl")[0]["n"] for job in (0, 1)]
    assert values == [3, "3"]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ["+rollout_dump=default", "rollout_dump.serialization=str_fallback"],
            "Did you mean rollout_dump/serialization=",
        ),
        (["+rollout_dump=default", "+rollout_dump.writer.fsink=true"], "Did you mean 'rollout_dump.writer.fsync'?"),
        (["+rollout_dump=default", "rollout_dump.on_error=never"], "Supported: warn, raise."),
        (["+rollout_dump=default", "rollout_dump.path.dir=???"], "(still ???): rollout_dump.path.dir"),
        (["+rollout_dump=jsonl"], "Could not find 'rollout_dump/jsonl'"),
    ],
)
def test_mistakes_end_the_app_with_a_message(app, overrides, said):
    done = app("hydra.run.dir=out", *overrides)
    assert done.returncode == 1
    assert said in done.stderr.replace("\n", " ")


def test_without_the_search_path_the_string_is_recognised(app, tmp_path):
    source = (tmp_path / "app.py").read_text().replace("import verl_rollout_dump.plugin", "")
    (tmp_path / "app.py").write_text(source)
    done = app("+rollout_dump=default", "hydra.run.dir=out")
    assert done.returncode == 1
    assert "rollout_dump is the string 'default'" in done.stderr
    assert "hydra.searchpath=[pkg://verl_rollout_dump.conf]" in done.stderr
    remedied = app(
        "hydra.searchpath=[pkg://verl_rollout_dump.conf]", "+rollout_dump=default", "--cfg", "job", "--resolve"
    )
    assert composed(remedied) == CONTRACT


def test_the_search_path_is_told_once_and_last(app):
    done = app("--info", "searchpath")
    lines = [line for line in done.stdout.splitlines() if "verl_rollout_dump" in line]
    assert len(lines) == 1 and "pkg://verl_rollout_dump.conf" in lines[0]
