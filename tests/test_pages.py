"""Every Python block of the README and of the page on adapters runs as it stands, in a fresh interpreter."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
JSON_BLOCK = re.compile(r"^```json\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)#]+)\)")
PAGES = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *sorted((CHECKOUT / "docs").glob("*.md"))]


def run(code, folder):
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_of_the_readme(tmp_path):
    (code,) = BLOCK.findall((CHECKOUT / "README.md").read_text("utf-8"))
    assert "records_written=1" in run(code, tmp_path)
    written = (tmp_path / "out/7.jsonl").read_text("utf-8")
    assert written == '{"input":"2+2=","output":"4","gts":null,"score":1.0,"step":7,"acc":true}\n'


def test_the_example_of_an_adapter(tmp_path):
    page = (CHECKOUT / "docs/adapters.md").read_text("utf-8")
    (code,), (expected,) = BLOCK.findall(page), JSON_BLOCK.findall(page)
    run(code, tmp_path)
    assert (tmp_path / "out/rollouts/1.jsonl").read_text("utf-8") == expected
    assert (tmp_path / "out/rollouts/2.jsonl").exists()


def test_the_readme_is_short():
    assert len((CHECKOUT / "README.md").read_text("utf-8").splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    targets = [target for target in LINK.findall(page.read_text("utf-8")) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_files_that_contributing_names_exist():
    names = re.findall(
        r"`((?:serialization|storage|config|cli|integrations|html_report)/[a-z_/]+\.py)`", PAGES[1].read_text("utf-8")
    )
    assert len(names) >= 9
    assert [name for name in names if not (CHECKOUT / "verl_rollout_dump" / name).exists()] == []


def test_the_supported_releases_are_those_of_the_tests():
    from verl_rollout_dump.integrations.verl.releases import SUPPORTED

    assert f"verl {SUPPORTED}" in (CHECKOUT / "README.md").read_text("utf-8")
