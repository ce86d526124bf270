"""What users install: the wheel in an environment of its own, with nothing of verl, torch or transformers."""

import os
import subprocess
import sys
import tarfile
import textwrap
import venv
import zipfile
from pathlib import Path

import pytest

from verl_rollout_dump import native

CHECKOUT = Path(__file__).parent.parent


def run(*command, cwd, **variables):
    command = [str(part) for part in command]
    environment = os.environ | variables
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy of what git tracks or would track."""
    source = tmp_path_factory.mktemp("source")
    listed = run("git", "ls-files", "-co", "--exclude-standard", cwd=CHECKOUT).split()
    for name in listed:
        if (CHECKOUT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((CHECKOUT / name).read_bytes())
    return source


@pytest.fixture(scope="module")
def built(source, tmp_path_factory):
    """The wheel and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
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


USES_NUMPY = "from verl_rollout_dump import native; print(native.library is None)"


def test_one_wheel_with_the_c_serves_all_versions_of_python(built, installed, tmp_path):
    (wheel,) = built.glob("*.whl")
    assert "-cp310-abi3-" in wheel.name
    assert run(installed, "-c", USES_NUMPY, cwd=tmp_path).strip() == "False"


def test_without_a_compiler_it_is_built_all_the_same(source, tmp_path):
    run(
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--wheel",
        "--outdir",
        tmp_path,
        source,
        cwd=tmp_path,
        CC="false",
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".so")]
        archive.extractall(tmp_path / "unpacked")
    said = run(sys.executable, "-c", USES_NUMPY, cwd=tmp_path / "unpacked", PYTHONPATH=str(tmp_path / "unpacked"))
    assert said.strip() == "True"


def test_a_library_that_cannot_be_loaded_is_told(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(native, "__file__", str(tmp_path / "__init__.py"))
    assert native.load() is None
    (tmp_path / "library.abi3.so").write_bytes(b"of another machine")
    assert native.load() is None
    assert "library.abi3.so cannot be loaded" in caplog.text


def test_an_editable_install_finds_the_configs_too():
    from verl_rollout_dump.config.searchpath import conf_location

    assert conf_location() == "pkg://verl_rollout_dump.conf"
