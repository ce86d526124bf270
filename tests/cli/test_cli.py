"""The command, run as its users run it."""

import json
import subprocess
import sys

import pytest

from verl_rollout_dump import RolloutDumpCallback, __version__
from verl_rollout_dump.cli.commands import COMMANDS
from verl_rollout_dump.reader import DumpReadError, read_records, step_files


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "verl_rollout_dump.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        env={"COLUMNS": "160", "PATH": "/usr/bin:/bin"},
    )


@pytest.fixture
def written(tmp_path, batch):
    with RolloutDumpCallback.from_config({"path": {"dir": str(tmp_path)}}) as callback:
        callback.on_rollout_end(batch(step=10, responses=["a", "b\x1b[31m", "c"], scores=[0, 1.5, 0]))
        callback.on_rollout_end(batch(n=1, step=2))
    return tmp_path


def test_summary(written):
    done = command("summary", written)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "jsonl" in line]
    assert [row[:3] for row in rows if len(row) == 5] == [["2", "1", "0.0000"], ["10", "3", "0.5000"]]
    assert str(written) in done.stdout
    assert "State: complete, attempts: 1" in done.stdout
    assert r"b\x1b[31m" in done.stdout and "\x1b[31m" not in done.stdout
    assert f"{written}/10.jsonl" in done.stdout


@pytest.mark.parametrize(("name", "said"), [("nowhere", "is not a directory"), ("", "holds no step files")])
def test_a_users_mistake_has_no_traceback(tmp_path, name, said):
    done = command("summary", tmp_path / name)
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (2, True, False)


def test_version():
    assert command("--version").stdout.strip() == f"verl-rollout-dump {__version__}"


def test_help_lists_every_command_and_each_has_examples():
    listed = command("--help").stdout
    assert [one.name for one in COMMANDS if one.name not in listed] == []
    assert [one.name for one in COMMANDS if "Example" not in (one.function.__doc__ or "")] == []


def test_a_dump_that_this_package_wrote_is_good(written):
    done = command("check", written, "--json")
    findings = json.loads(done.stdout)["findings"]
    assert (done.returncode, {finding["kind"] for finding in findings}) == (0, {"uneven steps"})


def test_a_closed_pipe_is_no_traceback(written):
    shell = f"{sys.executable} -m verl_rollout_dump.cli show {written} --json | head -c 10"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=60)
    assert (done.stdout[:7], "Traceback" in done.stderr) == ('{"step"', False)


def test_reader_orders_steps_by_number_and_reads_what_verl_wrote(tmp_path):
    (tmp_path / "10.jsonl").write_bytes(b'{"input": "a\\u2028b", "score": NaN}\n')
    (tmp_path / "2.jsonl").write_bytes('{"input": "a\u2028b"}\n{"input": 2}\n'.encode())
    assert list(step_files(tmp_path)) == [2, 10]
    assert [r["input"] for r in read_records(tmp_path / "2.jsonl")] == ["a\u2028b", 2]
    assert str(next(read_records(tmp_path / "10.jsonl"))["score"]) == "nan"
    (tmp_path / "3.jsonl").write_bytes(b'{"input": 1}\n{"inp')
    with pytest.raises(DumpReadError, match=r"3.jsonl, line 2: expected one JSON object, found '\{\"inp'"):
        list(read_records(tmp_path / "3.jsonl"))
