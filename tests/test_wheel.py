"""What users install: the wheel in an environment of its own, with nothing of verl, torch or transformers."""

import subprocess
import sys
import tarfile
import textwrap
import venv
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent


def run(*command, cwd):
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the sdist, built from a copy of what git tracks or would track."""
    folder = tmp_path_factory.mktemp("dist")
    source = tmp_path_factory.mktemp("source")
    listed = run("git", "ls-files", "-co", "--exclude-standard", cwd=CHECKOUT).split()
    for name in listed:
        if (CHECKOUT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((CHECKOUT / name).read_bytes())
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The Python of a fresh environment with the wheel and what it requires."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    (wheel,) = built.glob("*.whl")
    run(python, "-m", "pip", "install", "-q", "-c", CHECKOUT / "constraints.txt", wheel, cwd=folder)
    return python


def yaml_files():
    return {f"verl_rollout_dump/{p.relative_to(CHECKOUT)}" for p in (CHECKOUT / "conf").rglob("*.yaml")}


def test_wheel_and_sdist_hold_every_config(built):
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert yaml_files() <= names
    assert {"verl_rollout_dump/py.typed", "verl_rollout_dump/conf/__init__.py"} <= names
    assert not [name for name in names if name.startswith(("tests/", "conf/"))]
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {name.removeprefix("verl_rollout_dump/") for name in yaml_files()} <= inside
    assert {"setup.cfg", "pyproject.toml", "LICENSE", "README.md", "conf/__init__.py"} <= inside


def test_every_module_is_in_the_wheel(built):
    (wheel,) = built.glob("*.whl")
    modules = {str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "verl_rollout_dump").rglob("*.py")}
    assert modules <= set(zipfile.ZipFile(wheel).namelist())


def test_the_groups_compose_from_another_folder(installed, tmp_path):
    script = """
        import verl_rollout_dump, verl_rollout_dump.plugin
        from hydra import compose, initialize_config_module
        from verl_rollout_dump import load_config
        assert "site-packages" in verl_rollout_dump.__file__, verl_rollout_dump.__file__
        with initialize_config_module("verl_rollout_dump.conf", version_base=None):
            config = compose(overrides=["+rollout_dump=default", "rollout_dump/serialization=str_fallback"])
        print(load_config(config).serialization.strategy.name)
    """
    assert run(installed, "-c", textwrap.dedent(script), cwd=tmp_path).strip() == "str_fallback"


def test_the_core_needs_neither_verl_nor_torch(installed, tmp_path):
    script = """
        import importlib.util
        import numpy as np
        assert not [n for n in ("verl", "torch", "transformers", "ray") if importlib.util.find_spec(n)]
        from verl_rollout_dump import RolloutBatch, RolloutDumpCallback
        with RolloutDumpCallback.from_config({"path": {"dir": "out"}}) as callback:
            callback.on_rollout_end(RolloutBatch(
                step=7, prompts=["2+2="], responses=["4"], scores=[1.0], ground_truths=["4"],
                extras={"acc": np.array([True])}))
        print(open("out/7.jsonl").read(), end="")
    """
    line = '{"input":"2+2=","output":"4","gts":"4","score":1.0,"step":7,"acc":true}'
    assert run(installed, "-c", textwrap.dedent(script), cwd=tmp_path).strip() == line
    assert "out" in run(installed.parent / "verl-rollout-dump", "summary", "out", cwd=tmp_path)


def test_an_editable_install_finds_the_configs_too():
    from verl_rollout_dump.searchpath import conf_location

    assert conf_location() == "pkg://verl_rollout_dump.conf"
