"""docs/reading.md tells the truth: each of its commands is run, and prints what stands there.

`python tests/cli/test_reading_page.py` writes what the commands print now into the page.
"""

import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))
from documented_dump import make_dumps

PAGE = Path(__file__).parents[2] / "docs" / "reading.md"
BLOCK = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
NEEDED = {"query": "duckdb", "report": "vl_convert", "convert": "pyarrow"}
CHANGING = re.compile(r"(?<=report\.html: )[\d.]+ kB")  # the size depends on the version of vl-convert


def commands_of(block):
    """Return (command, output) of the lines of a block."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def output_of(command):
    """Run a command in this process, in the current folder."""
    from verl_rollout_dump.cli import app

    result = CliRunner().invoke(app, shlex.split(command)[1:], env={"COLUMNS": "118"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    lines = (line.rstrip() for line in CHANGING.sub("200.0 kB", result.output).rstrip("\n").split("\n"))
    return "\n".join(lines) + "\n"


def test_every_command_prints_what_the_page_says(tmp_path, monkeypatch):
    for module in NEEDED.values():
        pytest.importorskip(module)
    make_dumps(tmp_path)
    monkeypatch.chdir(tmp_path)
    for block in BLOCK.findall(PAGE.read_text()):
        for command, expected in commands_of(block):
            assert output_of(command) == expected, command


def write_page():
    """Write what the commands print now."""
    page = PAGE.read_text()
    with tempfile.TemporaryDirectory() as folder:
        make_dumps(Path(folder))
        os.chdir(folder)
        page = BLOCK.sub(
            lambda match: "".join(
                f"$ {command}\n{output_of(command)}"
                for command in re.findall(r"^\$ (.*)$", match[0], flags=re.MULTILINE)
            ),
            page,
        )
    PAGE.write_text(page)


if __name__ == "__main__":
    write_page()
