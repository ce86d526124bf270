"""How the command ends when its user stops it: real processes, real signals, real pipes. Never with a traceback."""

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time

import pytest

# Says when the command begins: what Python itself does before is not ours. Processes are used for any size.
START = """
import signal, sys
from verl_rollout_dump.cli import main
if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as main does first
if __name__ == "__main__":
    print("begun", file=sys.stderr, flush=True)
if "--workers" in sys.argv:
    from verl_rollout_dump.reader import parallel
    parallel.WORTH_PROCESSES, parallel._TASK_FILES = 0, 1
if __name__ == "__main__":
    main()
"""
NOISE = ("Traceback", "Exception ignored", "KeyboardInterrupt", "Aborted", "leaked", "Error")


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    folder = tmp_path_factory.mktemp("endings") / "dump"
    folder.mkdir()
    for step in range(1, 13):
        records = ({"input": f"p{i}", "output": "word " * 200, "score": i % 2} for i in range(1500))
        (folder / f"{step}.jsonl").write_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    return folder


@pytest.fixture
def command(tmp_path):
    """Start a command in a process group of its own, as a shell does; wait until it begins."""
    script = tmp_path / "start.py"
    script.write_text(START)

    def start(*arguments, **options):
        process = subprocess.Popen(
            [sys.executable, str(script), *map(str, arguments)],
            stderr=subprocess.PIPE,
            stdout=options.pop("stdout", subprocess.PIPE),
            start_new_session=True,
            **options,
        )
        assert process.stderr.readline() == b"begun\n"
        return process

    return start


def group_is_gone(process):
    """Whether all processes of the group have ended, within ten seconds."""
    for _ in range(1000):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


COMMANDS = {
    "ls": ("ls", "DIR"),
    "stats": ("stats", "DIR", "--workers", "1"),
    "stats in processes": ("stats", "DIR", "--workers", "2"),
    "tail -f": ("tail", "-f", "DIR"),
    "report": ("report", "DIR", "-o", "OUT.html", "--workers", "1"),
    "query": ("query", "DIR", "select avg(score) from rollouts"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_two_quick_ctrl_c_print_nothing(name, dump, tmp_path, command):
    for delay in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0):
        arguments = [{"DIR": dump, "OUT.html": tmp_path / "out.html"}.get(word, word) for word in COMMANDS[name]]
        process = command(*arguments, stdout=subprocess.DEVNULL)
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.03)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        errors = process.communicate(timeout=30)[1].decode()
        assert [word for word in NOISE if word in errors] == [], (delay, errors)
        assert process.returncode in (-signal.SIGINT, 0), (delay, process.returncode)
        assert group_is_gone(process), delay


def test_one_ctrl_c_ends_by_the_signal_and_leaves_no_part_of_a_file(dump, tmp_path, command):
    for delay in (0.3, 0.6, 0.9):
        process = command("convert", dump, "-o", tmp_path / "out.jsonl", stdout=subprocess.DEVNULL)
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate(timeout=30)[1] == b""
        if process.returncode:
            assert process.returncode == -signal.SIGINT
        names = {path.name for path in tmp_path.iterdir()} - {"start.py"}
        assert names <= {"out.jsonl"}
        if names:  # whole, also if the interrupt came right after the file
            assert (tmp_path / "out.jsonl").read_bytes().count(b"\n") == 12 * 1500
        (tmp_path / "out.jsonl").unlink(missing_ok=True)


def test_processes_end_with_a_parent_that_is_killed(dump, command):
    process = command("stats", dump, "--workers", "2", stdout=subprocess.DEVNULL)
    time.sleep(1)
    process.kill()
    process.wait(timeout=30)
    assert group_is_gone(process)


def test_a_command_that_ignores_ctrl_c_goes_on(dump, command):
    ignore = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    process = command("stats", dump, "--workers", "1", "--json", **ignore)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors, len(json.loads(output))) == (0, b"", 12)


@pytest.mark.parametrize("keys", [b"q", b"\x03", b"\x03\x03", "SIGINT", "two SIGINTs"], ids=str)
def test_view_restores_the_terminal(keys, dump, command):
    for delay in (0.0, 0.3, 0.7, 2.0):
        if keys == b"q" and delay < 2:
            continue  # before the viewer listens, a letter is no key
        master, terminal = pty.openpty()
        process = command("view", dump, stdin=terminal, stdout=terminal, env={**os.environ, "TERM": "xterm-256color"})
        os.close(terminal)
        printed = []
        reader = threading.Thread(target=read_all, args=(master, printed), daemon=True)
        reader.start()
        time.sleep(delay)
        stop(process, master, keys)
        errors = process.communicate(timeout=30)[1].decode()
        reader.join(timeout=10)
        shown = b"".join(printed).decode("utf-8", "replace") + errors
        assert [word for word in NOISE if word in shown] == [], (delay, shown[-3000:])
        assert shown.count("\x1b[?1049h") == shown.count("\x1b[?1049l"), delay  # the alternate screen
        assert process.returncode in (-signal.SIGINT, 0), (delay, process.returncode)


def stop(process, master, keys):
    if isinstance(keys, bytes):
        os.write(master, keys)
        for _ in range(200):  # keys that come before the viewer listens are lost; a user presses them again
            if process.poll() is not None:
                return
            time.sleep(0.1)
            os.write(master, keys)
        return
    os.killpg(process.pid, signal.SIGINT)
    if keys == "two SIGINTs":
        time.sleep(0.02)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)


def read_all(master, printed):
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:  # the terminal has no user any more
            return
        if not data:
            return
        printed.append(data)


PIPES = {
    "ls": ("ls", "DIR"),
    "summary": ("summary", "DIR"),
    "show": ("show", "DIR", "--json"),
    "stats": ("stats", "DIR", "--csv", "--workers", "1"),
    "stats as a table": ("stats", "DIR", "--workers", "1"),
    "groups": ("groups", "DIR"),
    "tail": ("tail", "DIR", "--json"),
    "check": ("check", "DIR", "--workers", "1"),
    "query": ("query", "DIR", "select * from rollouts", "--csv"),
    "help": ("--help",),
}


@pytest.mark.parametrize("name", PIPES)
def test_a_closed_pipe_is_quiet(name, dump, command):
    reading, writing = os.pipe()
    process = command(*(dump if word == "DIR" else word for word in PIPES[name]), stdout=writing)
    os.close(reading)
    os.close(writing)
    errors = process.communicate(timeout=60)[1].decode()
    assert [word for word in (*NOISE, "Broken") if word in errors] == [], errors
    assert process.returncode == 1


@pytest.mark.parametrize("name", ["ls", "show", "stats", "help"])
def test_a_full_disk_is_one_line(name, dump, command):
    with open("/dev/full", "w") as full:
        process = command(*(dump if word == "DIR" else word for word in PIPES[name]), stdout=full)
        errors = process.communicate(timeout=60)[1].decode()
    assert [word for word in ("Traceback", "Exception ignored") if word in errors] == [], errors
    assert "No space left on device" in errors
    assert process.returncode == 2
