"""Files that vanish, grow, shrink or are replaced while a command reads: no traceback, and the message names them."""

import json
import os
import shutil
import threading
import traceback

import pytest

from verl_rollout_dump.cli import tail
from verl_rollout_dump.reader import Follower, dump_files, follow, open_dump, streams

STEPS = 6


def lines(step, count=4):
    records = ({"input": f"p{i // 2}", "output": f"o{i}", "score": float(i % 2), "step": step} for i in range(count))
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@pytest.fixture
def dump(tmp_path):
    folder = tmp_path / "dump"
    folder.mkdir()
    for step in range(1, STEPS + 1):
        (folder / f"{step}.jsonl").write_bytes(lines(step))
    return folder


def remove(folder):
    (folder / "3.jsonl").unlink(missing_ok=True)


def remove_last(folder):
    (folder / "6.jsonl").unlink(missing_ok=True)


def supersede(folder):
    (folder / "superseded").mkdir(exist_ok=True)
    if (folder / "3.jsonl").exists():
        os.replace(folder / "3.jsonl", folder / "superseded" / "3.jsonl")


def shorten(folder):
    (folder / "6.jsonl").write_bytes(lines(6, 1))
    (folder / "3.jsonl").write_bytes(lines(3, 1))


def grow(folder):
    for step in (3, 6):
        with (folder / f"{step}.jsonl").open("ab") as file:
            file.write(lines(step, 3))


def replace_by_others(folder):
    for step in (3, 6):
        (folder / "new").write_bytes(b'{"other": 1}\n' * 9)
        os.replace(folder / "new", folder / f"{step}.jsonl")


def replace_by_folder(folder):
    if (folder / "3.jsonl").is_file():
        (folder / "3.jsonl").unlink()
        (folder / "3.jsonl").mkdir()


def appear(folder):
    (folder / "7.jsonl").write_bytes(lines(7))


def remove_all(folder):
    shutil.rmtree(folder, ignore_errors=True)


CHANGES = (remove, remove_last, supersede, shorten, grow, replace_by_others, replace_by_folder, appear, remove_all)
COMMANDS = {
    "ls": ("ls", "DIR"),
    "summary": ("summary", "DIR"),
    "show": ("show", "DIR"),
    "show --worst": ("show", "DIR", "--worst", "5"),
    "show --where": ("show", "DIR", "--where", "score > 0", "--json"),
    "show --random": ("show", "DIR", "--random", "5"),
    "stats": ("stats", "DIR", "--workers", "1"),
    "groups": ("groups", "DIR"),
    "diff": ("diff", "DIR", "--step-a", "1-3", "--step-b", "4-6"),
    "tail": ("tail", "DIR", "--examples", "1"),
    "check": ("check", "DIR", "--workers", "1"),
    "repair": ("repair", "DIR", "-o", "OUT"),
    "query": ("query", "DIR", "select count(*) from rollouts"),
    "convert": ("convert", "DIR", "-o", "OUT.parquet"),
    "report": ("report", "DIR", "-o", "OUT.html", "--workers", "1"),
}


@pytest.fixture
def change_at(monkeypatch):
    """Change the dump just before a file of it is opened for the n-th time, in whichever module."""
    openers = dict(streams._OPENERS)

    def arrange(number, change, folder):
        openings = iter(range(1, 10_000))

        def open_and_change(opener, path):
            if next(openings) == number:
                change(folder)
            return opener(path)

        for suffix, opener in openers.items():
            monkeypatch.setitem(streams._OPENERS, suffix, lambda path, opener=opener: open_and_change(opener, path))

    return arrange


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_ends_in_a_traceback(name, change, dump, tmp_path, run, change_at):
    backup = tmp_path / "backup"
    shutil.copytree(dump, backup)
    for number in (1, 2, 4, 7, 8, 10, 13, 16, 19):
        shutil.rmtree(dump, ignore_errors=True)
        shutil.copytree(backup, dump)
        change_at(number, change, dump)
        places = {"DIR": str(dump), "OUT": str(tmp_path / f"out{number}")}
        arguments = [places.get(word, word.replace("OUT", places["OUT"])) for word in COMMANDS[name]]
        done = run(*arguments)
        unexpected = None if isinstance(done.exception, SystemExit | None) else done.exception
        assert unexpected is None, f"opening {number}: {''.join(traceback.format_exception(unexpected))}"
        assert done.exit_code in (0, 1, 2, 3), number
        assert done.exit_code != 2 or str(tmp_path) in done.stderr, (number, done.stderr)


@pytest.mark.parametrize("name", ["stats", "show", "summary", "groups", "report"])
def test_a_removed_file_is_named_and_the_rest_is_read(name, dump, tmp_path, run, change_at):
    change_at(1, remove, dump)
    places = {"DIR": str(dump), "OUT.html": str(tmp_path / "out.html")}
    done = run(*(places.get(word, word) for word in COMMANDS[name]))
    assert done.exit_code == 0, done.output
    told = f"{dump}/3.jsonl was removed while the dump was read; its records may be missing here"
    assert done.stderr.splitlines()[-1] == f"verl-rollout-dump: {told}"


def test_several_removed_files_are_one_line(dump, run, change_at):
    change_at(1, remove_all, dump)
    told = f"{dump}/1.jsonl and 5 more files were removed while the dump was read; their records may be missing here"
    assert f"verl-rollout-dump: {told}\n" in run("stats", dump, "--workers", "1").stderr


def test_stats_of_the_other_steps(dump, run, change_at):
    change_at(1, remove, dump)
    done = run("stats", dump, "--json", "--workers", "1")
    assert [row["step"] for row in json.loads(done.stdout)] == [1, 2, 4, 5, 6]
    assert [row["unreadable_lines"] for row in json.loads(done.stdout)] == [0] * 5


def test_removed_files_are_no_unreadable_lines(dump):
    with open_dump(dump) as opened:
        remove(dump)
        assert len(list(opened.records())) == 20
        assert len(opened) == 20
        assert opened.unreadable_lines == 0
        assert opened.removed_files == [dump / "3.jsonl"]


def test_a_listing_that_a_move_disturbs_is_made_again(dump, monkeypatch):
    scandir, calls = os.scandir, []

    def disturbed(folder):
        calls.append(folder)
        if len(calls) < 3:
            raise FileNotFoundError(2, "moved")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", disturbed)
    assert [file.step for file in dump_files(dump)] == [1, 2, 3, 4, 5, 6]


def test_following_goes_on_past_files_that_vanish(dump, change_at):
    follower = Follower(dump)
    change_at(3, remove, dump)
    assert [row.step for row in follower.poll() if row.index == 0] == [1, 2, 4, 5, 6]
    remove_all(dump)
    assert list(follower.poll()) == []
    dump.mkdir()
    appear(dump)
    assert [row.step for row in follower.poll()] == [7, 7, 7, 7]


def test_follow_survives_a_folder_that_vanishes_and_comes_back(dump):
    rows = follow(dump, seconds=0.01)
    assert [next(rows).step for _ in range(4 * STEPS)][-1] == 6
    remove_all(dump)
    dump.mkdir()
    appear(dump)
    assert next(rows).step == 7


def test_tail_says_that_it_waits_for_a_folder(dump, tmp_path, capsys):
    steps = tail.written_steps(tmp_path / "later", 10, 0.01)
    threading.Timer(0.1, lambda: shutil.copytree(dump, tmp_path / "later")).start()
    assert next(steps)[0].step == 1
    told = f"verl-rollout-dump: {tmp_path}/later does not exist; waiting for it (Ctrl-C ends this)\n"
    assert capsys.readouterr().err == told


def test_tail_names_a_file_that_is_gone_before_it_could_be_read(dump, run, change_at):
    change_at(2, remove, dump)
    done = run("tail", dump, "--json")
    assert [json.loads(line)["step"] for line in done.stdout.splitlines()] == [1, 2, 4, 5, 6]
    told = f"{dump}/3.jsonl was removed while the dump was read; its records may be missing here"
    assert done.stderr == f"verl-rollout-dump: {told}\n"
