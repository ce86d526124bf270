"""The commands: what they print, for people and for scripts, and their exit codes."""

import csv
import io
import json
import threading
import time

import pytest

from verl_rollout_dump.analysis.formatting import one_line, printable, readable_size, sparkline
from verl_rollout_dump.cli import tail
from verl_rollout_dump.reader.optional_imports import require


def json_lines(result):
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def json_of(result):
    (value,) = json_lines(result)
    return value


def outputs(result):
    return [line["record"]["output"] for line in json_lines(result)]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("--step", "2", "--index", "3"), ["2.3"]),
        (("--index", "1"), ["10.1"]),
        (("--step", "last", "-n", "2"), ["10.0", "10.1"]),
        (("--worst", "2"), ["2.0", "2.2"]),
        (("--worst", "3"), ["2.0", "2.2", "1.0"]),
        (("--best", "3"), ["10.0", "10.2", "10.1"]),
        (("--best", "1", "--step", "1-2"), ["2.1"]),
        (("--worst", "1", "--where", "acc == true"), ["10.0"]),
        (("--grep", r"response \d\.[13]$"), ["1.1", "1.3", "2.1", "2.3"]),
        (("--where", "acc == false", "--index", "2", "--step", "1-10"), ["1.2", "2.2"]),
        (("--uid", "uid2p1"), ["2.2", "2.3"]),
        (("--where", "score > 0.5 and step < 10"), ["1.1", "1.3", "2.1", "2.3"]),
        (("--random", "12"), [f"{step}.{i}" for step in (1, 2, 10) for i in range(4)]),
        (("--step", "1,10", "-n", "5"), ["1.0", "1.1", "1.2", "1.3", "10.0"]),
    ],
)
def test_show(run, small_dump, options, shown):
    assert outputs(run("show", small_dump, "--json", *options)) == [f"response {name}" for name in shown]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--step", "7"), 3, "has no step 7. It has: 1-2,10"),
        (("--step", "x"), 2, '--step x: expected steps such as "7", "1-3,9" or "last"'),
        (("--step", "1", "--index", "4"), 2, "step 1 has 4 records"),
        (("--where", "score <"), 2, "found the end"),
        (("--worst", "1", "--best", "1"), 2, "exclude each other"),
        (("--brief", "--full"), 2, "exclude each other"),
        (("--seed", "1"), 2, "give --random N, too"),
        (("--grep", "("), 2, "not a regular expression"),
        (("--uid", "none"), 3, "no record is as asked for"),
    ],
)
def test_show_mistakes(run, small_dump, options, code, said):
    result = run("show", small_dump, *options)
    assert result.exit_code == code
    assert said in result.output
    assert "Traceback" not in result.output


def test_a_models_output_cannot_drive_the_terminal(run, write_step, make_record):
    hostile = "\x1b[2J\x1b]0;title\x07[bold red]x[/] \x9b31m\u202e\r\x00"
    dump = write_step("1.jsonl", [make_record(1, 0, output=hostile, **{"\x1b[31mkey": "\x1b[0m"})])
    for arguments in (("show", dump), ("summary", dump), ("diff", dump, dump, "--texts"), ("tail", dump, "-e", 1)):
        result = run(*arguments)
        assert result.exit_code == 0, result.output
        assert not set(result.output) & set("\x1b\x07\x9b\u202e\r\x00")
    assert r"\x1b[2J\x1b]0;title\x07[bold red]x[/] \x9b31m\u202e\r\x00" in run("show", dump).output


def test_stats(run, small_dump):
    found = json_of(run("stats", small_dump, "--json"))
    assert [(step["step"], step["score"]["mean"], step["groups_without_signal"]) for step in found] == [
        (1, 0.5, 0),
        (2, 0.5, 0),
        (10, 1.0, 2),
    ]
    rows = list(csv.DictReader(io.StringIO(run("stats", small_dump, "--csv").stdout)))
    assert [(row["step"], row["score.mean"], row["extras.acc.mean"]) for row in rows][2] == ("10", "1.0", "1.0")
    text = run("stats", small_dump, "--step", "2-10").output
    assert "2/2" in text and "▁█" in text and "│    1 │" not in text


@pytest.mark.parametrize(
    ("content", "options", "code"),
    [
        (b'{"input": "p"}\n', (), 0),
        (b'{"input": "p"}\n', ("--strict",), 0),
        (b'{"input": "p"}\r\n', (), 0),
        (b'{"input": "p"}\r\n', ("--strict",), 1),
        (b'{"input": NaN}\n', (), 1),
        (b'{"input": "p"}\n{"', (), 1),
    ],
)
def test_check(run, write_step, content, options, code):
    result = run("check", write_step("1.jsonl", content), *options)
    assert result.exit_code == code, result.output


def test_check_of_nothing(run, tmp_path):
    assert run("check", tmp_path).exit_code == 2


def test_check_in_json(run, write_step):
    found = json.loads(run("check", write_step("1.jsonl", b'{"a": NaN}\n'), "--json").stdout)
    assert (found["errors"], found["findings"][0]["kind"]) == (1, "NaN")


def test_repair(run, write_step, tmp_path):
    dump = write_step("1.jsonl", b'{"acc": "True"}\n{"a')
    result = run("repair", dump, "-o", tmp_path / "clean")
    assert "boolean read back from text: acc" in result.output and "left out: 1.jsonl, line 2" in result.output
    assert (tmp_path / "clean" / "1.jsonl").read_text() == '{"acc":true}\n'
    again = run("repair", dump, "-o", tmp_path / "clean")
    assert (again.exit_code, "not empty" in again.output) == (2, True)


def test_groups(run, small_dump):
    assert [group["indexes"] for group in json_of(run("groups", small_dump, "--no-signal", "--json"))] == [
        [0, 1],
        [2, 3],
    ]
    assert json_of(run("groups", small_dump, "--step", "1", "--no-signal", "--json")) == []
    assert "2 groups, 2 without signal" in run("groups", small_dump).output


def test_diff_of_two_steps(run, small_dump):
    found = json_of(run("diff", small_dump, "--step-a", "10", "--step-b", "1", "--json"))
    assert (found["prompts_in_both"], found["better"], found["steps"]) == (2, [], [])
    assert [(change["prompt"], change["before"], change["after"]) for change in found["worse"]] == [
        ("prompt 0", 1.0, 0.5),
        ("prompt 1", 1.0, 0.5),
    ]
    text = run("diff", small_dump, "--step-a", "10", "--step-b", "1", "--texts").output
    assert "2 prompts in both: 2 worse, 0 better, 0 equal" in text and "10.0 1.1" in text


def test_diff_of_two_runs(run, small_dump, tmp_path, make_record):
    other = tmp_path / "other"
    other.mkdir()
    (other / "1.jsonl").write_text("".join(json.dumps(make_record(1, i, score=1)) + "\n" for i in range(2)))
    found = json_of(run("diff", small_dump, other, "--json"))
    assert found["steps"] == [
        {"step": 1, "before": 0.5, "after": 1.0, "change": 0.5},
        {"step": 2, "before": 0.5, "after": None, "change": None},
        {"step": 10, "before": 1.0, "after": None, "change": None},
    ]
    assert run("diff", small_dump, other).exit_code == 0
    by_uid = ("diff", small_dump, other, "--by", "uid", "--step-a", "1", "--json")
    assert json_of(run(*by_uid))["prompts_in_both"] == 2  # as far as is known, each uid is a prompt
    for dump in (small_dump, other):
        (dump / "run.json").write_text(json.dumps({"uid_form": "{uid}_{session}_{output}"}))
    assert json_of(run(*by_uid))["prompts_in_both"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"), [((), "give a second dump"), (("--step-a", "1", "--step-b", "2", "--by", "x"), "--by x")]
)
def test_diff_mistakes(run, small_dump, arguments, said):
    result = run("diff", small_dump, *arguments)
    assert (result.exit_code, said in result.output) == (2, True)


def test_ls_of_a_multirun(run, tmp_path, make_record):
    for job, rate in (("0", "1e-5"), ("1", "1e-6")):
        hydra = tmp_path / job / ".hydra"
        hydra.mkdir(parents=True)
        (hydra / "overrides.yaml").write_text(f"- optim.lr={rate}\n- trainer.n=1\n")
        (tmp_path / job / "rollouts").mkdir()
        (tmp_path / job / "rollouts" / "1.jsonl").write_text(json.dumps(make_record(1, int(job))) + "\n")
    rows = json_of(run("ls", tmp_path, "--json"))
    assert [(row["records"], row["score"], row["overrides"]) for row in rows] == [
        (1, 0.0, ["optim.lr=1e-5"]),
        (1, 1.0, ["optim.lr=1e-6"]),
    ]
    text = run("ls", tmp_path).output
    assert "0/rollouts" in text and "optim.lr=1e-6" in text


def test_tail(run, small_dump):
    lines = run("tail", small_dump, "-n", "2", "-e", "1").output
    assert lines.startswith("step      2  4 records  score 0.5000 ± 0.5000 (0.00…1.00)  length 12")
    assert "no signal 2/2" in lines and "response 10.0" in lines
    assert [step["step"] for step in json_lines(run("tail", small_dump, "-n", "1", "--json"))] == [10]


def test_tail_follows_a_file_that_is_filled_slowly(tmp_path):
    told = tail.written_steps(tmp_path / "dump", 10, 0.05)

    def write_slowly():
        (tmp_path / "dump").mkdir()
        with (tmp_path / "dump" / "1.jsonl").open("w", buffering=1) as file:
            for number in range(10):
                file.write(json.dumps({"output": number}) + "\n")
                time.sleep(0.02)

    writer = threading.Thread(target=write_slowly)
    writer.start()
    (file,) = next(told)
    writer.join()
    assert file.path.read_text().count("\n") == 10


def test_tail_goes_on_after_a_file_vanished(small_dump, monkeypatch):
    listed = tail.files_if_any

    def list_and_remove(directory):
        files = listed(directory)
        (directory / "2.jsonl").unlink(missing_ok=True)
        return files

    monkeypatch.setattr(tail, "files_if_any", list_and_remove)
    steps = tail.written_steps(small_dump, 10, 0.01)
    assert [next(steps)[0].step for _ in range(3)] == [1, 2, 10]
    (small_dump / "11.jsonl").write_text('{"output": "o"}\n')
    assert next(steps)[0].step == 11


def test_query(run, small_dump):
    pytest.importorskip("duckdb")
    sql = "select step, avg(score) as mean from rollouts group by 1 order by 1"
    expected = [{"step": 1, "mean": 0.5}, {"step": 2, "mean": 0.5}, {"step": 10, "mean": 1.0}]
    assert json_of(run("query", small_dump, sql, "--json")) == expected
    assert run("query", small_dump, sql, "--csv").stdout.splitlines()[:2] == ["step,mean", "1,0.5"]
    assert "null" in run("query", small_dump, "select null").output
    mistake = run("query", small_dump, "select nothing from rollouts")
    assert (mistake.exit_code, "query: Binder Error" in mistake.output) == (2, True)


def test_query_of_hostile_files(run, write_step):
    pytest.importorskip("duckdb")
    dump = write_step("3.jsonl", b'{"score": 1.0}\nbad\n{"score": 2.0}\n{"sc')
    (row,) = json_of(run("query", dump, "select sum(score) as s, min(step) as step from rollouts", "--json"))
    assert row == {"s": 3.0, "step": 3}


def test_a_missing_package_is_told(monkeypatch, run, small_dump):
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    result = run("query", small_dump, "select 1")
    assert result.exit_code == 2
    assert "query needs the package duckdb" in result.output
    assert "pip install 'verl-rollout-dump[tools]'" in result.output


def test_require_does_not_hide_what_a_package_itself_lacks(monkeypatch, tmp_path):
    (tmp_path / "broken_package.py").write_text("import a_module_that_is_nowhere")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_nowhere"):
        require("broken_package", "a test")


def test_view_needs_a_terminal(run, small_dump):
    result = run("view", small_dump)
    assert (result.exit_code, "view needs a terminal" in result.output) == (2, True)


def test_a_target_that_is_a_folder(run, small_dump, tmp_path):
    pytest.importorskip("vl_convert")
    result = run("report", small_dump, "-o", tmp_path)
    assert (result.exit_code, "Is a directory" in result.output) == (2, True)


def test_printable():
    assert printable("a\tb\n\x1b[0m é 👩‍🚀") == "a\tb\n\\x1b[0m é 👩‍🚀"
    assert printable("abcdef", 3) == "ab… (3 of 6 characters) …f"
    assert printable("\ud800") == "?"
    assert one_line("a\nbcdef", 5) == "a⏎bc…"
    assert [readable_size(size) for size in (1, 1500, 2_500_000)] == ["1 B", "1.5 kB", "2.5 MB"]


def test_sparkline():
    assert sparkline([0, 0.5, None, 1]) == "▁▅ █"
    assert sparkline([1, 1]) == "▁▁"
    assert sparkline([None]) == ""
    assert len(sparkline(list(range(1000)), 20)) == 20


@pytest.fixture
def twelve_matches(write_step, make_record):
    return write_step("1.jsonl", [make_record(1, index, acc=index % 2 == 0) for index in range(24)])


def test_json_has_no_limit_unless_asked_for(run, twelve_matches):
    arguments = ("show", twelve_matches, "--where", "acc == true", "--json")
    everything = run(*arguments)
    assert (len(everything.stdout.splitlines()), everything.stderr) == (12, "")
    limited = run(*arguments, "--limit", 5)
    assert len(limited.stdout.splitlines()) == 5
    assert limited.stderr == "verl-rollout-dump: 5 of 12 shown; --limit N shows more\n"


def test_a_limit_is_said(run, twelve_matches, monkeypatch):
    shown = run("show", twelve_matches, "--where", "acc == true")
    assert shown.stderr == "verl-rollout-dump: 10 of 12 shown; --limit N shows more\n"
    assert run("show", twelve_matches).stderr == "verl-rollout-dump: 10 of 24 shown; --limit N shows more\n"
    assert run("show", twelve_matches, "--limit", 24).stderr == ""
    worst = run("show", twelve_matches, "--worst", 12)
    assert (worst.stdout.count("index "), worst.stderr) == (12, "")
    monkeypatch.setattr("verl_rollout_dump.cli.show.WORTH_COUNTING", 1)
    assert run("show", twelve_matches).stderr == "verl-rollout-dump: the first 10 shown; --limit N shows more\n"


def test_unreadable_lines_are_said_if_nothing_matches(run, write_step):
    dump = write_step("1.jsonl", b'{"score": 1}\ngarbage\n')
    result = run("show", dump, "--where", "score > 5")
    assert (result.exit_code, "1 unreadable line was skipped" in result.stderr) == (3, True)
