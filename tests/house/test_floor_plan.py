"""The house: what imports what, and how large files and functions are. The layers stand in pyproject.toml."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path
from statistics import median

import grimp
import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = CHECKOUT / "verl_rollout_dump"
LOOSE_MODULES = {"__init__.py", "errors.py", "hooks.py", "plugin.py", "version.py"}
MOST_LINES_OF_A_FILE, MOST_LINES_OF_A_FUNCTION, MEDIAN_OF_FUNCTIONS = 250, 40, 8


def test_packages_import_downwards_only():
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def test_no_file_imports_itself_in_a_circle():
    graph = grimp.build_graph("verl_rollout_dump", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_nothing_else_is_loose():
    assert {path.name for path in PACKAGE.glob("*.py")} == LOOSE_MODULES


def sizes():
    """Lines of each file and of each function, by place."""
    files, functions = {}, {}
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text("utf-8")
        files[str(path.relative_to(CHECKOUT))] = len(text.splitlines())
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions[f"{path.relative_to(CHECKOUT)}:{node.name}"] = node.end_lineno - node.lineno + 1
    return files, functions


def test_rooms_are_small():
    files, functions = sizes()
    assert {place: lines for place, lines in files.items() if lines > MOST_LINES_OF_A_FILE} == {}
    assert {place: lines for place, lines in functions.items() if lines > MOST_LINES_OF_A_FUNCTION} == {}
    assert median(functions.values()) <= MEDIAN_OF_FUNCTIONS


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("verl_rollout_dump.callback", "RolloutDumpCallback"),
        ("verl_rollout_dump.lineage", "lineage"),
        ("verl_rollout_dump.lineage", "superseded_files"),
        ("verl_rollout_dump.rollouts", "columns_of"),
        ("verl_rollout_dump.rollouts", "RolloutBatch"),
        ("verl_rollout_dump.searchpath", "RolloutDumpSearchPath"),
        ("verl_rollout_dump.storage", "upload_spool"),
        ("verl_rollout_dump.integrations.trl", "dump_rollouts"),
    ],
)
def test_former_import_paths_give_the_same_objects(path, name):
    code = f"import importlib; print(importlib.import_module({path!r}).{name}.__module__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("verl_rollout_dump.")
