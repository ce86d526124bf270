"""The report is one file that loads nothing, and a model's output does nothing in it."""

import html
import re
import shutil
import subprocess

import pytest

pytest.importorskip("vl_convert")

from verl_rollout_dump.html_report import write_report
from verl_rollout_dump.html_report.charts import histogram, thinned
from verl_rollout_dump.reader import DumpReadError, open_dump

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "</pre></details></style><iframe src='https://example.org'></iframe>\x1b[31m\x00&amp;\"'"
)


@pytest.fixture
def hostile_report(write_step, make_record, tmp_path):
    name = "<script>alert(1)</script>"
    for step in (1, 2, 3):
        fields = {"output": HOSTILE, "input": HOSTILE, "score": step / 3, name: 0.5, "nested": {HOSTILE: HOSTILE}}
        dump = write_step(f"{step}.jsonl", [make_record(step, index, **fields) for index in range(4)])
    write_report(open_dump(dump), tmp_path / "report.html")
    return tmp_path / "report.html"


def test_nothing_is_loaded_and_nothing_runs(hostile_report):
    text = hostile_report.read_text()
    assert text.startswith("<!DOCTYPE html>") and "Content-Security-Policy" in text
    tags = set(re.findall(r"<([a-zA-Z]+)", text))
    assert tags <= {
        "html", "head", "meta", "title", "style", "body", "h", "p", "div", "img", "details", "summary", "b", "pre",
        "table", "tr", "th", "td", "br",
    }  # fmt: skip
    assert re.findall(r'<img[^>]*src="(?!data:image/svg\+xml;base64,)', text) == []
    assert re.findall(r"<[a-z][^>]*\son\w+=", text) == []
    shown = html.escape(HOSTILE.replace("\x1b", r"\x1b").replace("\x00", r"\x00"))
    assert text.count(shown) >= 10
    assert set(text) & set("\x1b\x00") == set()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH (Debian: apt-get install chromium)")
def test_in_a_browser(hostile_report, tmp_path):
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [*command, "--virtual-time-budget=3000", "--dump-dom", hostile_report.as_uri()],
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert "<title>Rollouts of dump</title>" in done.stdout, done.stderr[-2000:]
    assert "<iframe" not in done.stdout and "<script" not in done.stdout
    assert "&lt;script&gt;document.title='owned'&lt;/script&gt;" in done.stdout


def test_sections(run, small_dump, tmp_path):
    result = run("report", small_dump, "-o", tmp_path / "report.html")
    assert result.exit_code == 0, result.output
    text = (tmp_path / "report.html").read_text()
    headings = re.findall(r"<h[12]>([^<]*)</h[12]>", text)
    assert headings == [
        "Rollouts of dump", "Scores", "Responses", "Extras", "Worst of step 10", "Best of step 10",
        "Prompts that changed most", "Groups of step 10", "Steps",
    ]  # fmt: skip
    assert "12 records of steps 1-2,10" in text
    assert re.findall(r'<img alt="([^"]*)"', text) == [
        "score: mean, ± std, min, max", "scores of step 1", "scores of step 2", "scores of step 10",
        "response length: mean, ± std, min, max", "Share of responses, and of groups", "acc: mean, ± std, min, max",
    ]  # fmt: skip
    assert "+0.5000  (0.5000 → 1.0000)  prompt 0" in text
    assert "2 groups, 2 without signal." in text


def test_dumps_with_little_in_them(write_step, tmp_path):
    dump = write_step("1.jsonl", b'{"output": "a", "score": NaN}\n{"x": 1}\n{"')
    write_report(open_dump(dump), tmp_path / "report.html")
    assert "2 records of steps 1" in (tmp_path / "report.html").read_text()
    with pytest.raises(DumpReadError, match="holds no records"):
        write_report(open_dump(write_step("1.jsonl", b"")), tmp_path / "report.html")
    with pytest.raises(DumpReadError, match="make it first"):
        write_report(open_dump(dump), tmp_path / "nowhere" / "report.html")


def test_charts_of_little_and_much():
    import numpy as np

    assert histogram("none", np.array([])).startswith('<img alt="none"')
    assert histogram("one", np.array([0.5, np.nan, np.inf])).startswith('<img alt="one"')
    assert (len(thinned(range(100_000))), thinned(range(100_000))[-1]) == (2000, 99_999)
