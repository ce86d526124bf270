"""The package of `examples/rollout_table`, installed as a user installs it, in a real training of verl."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.verl, pytest.mark.train]

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "rollout_table"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder with the installed example, built from a copy: building leaves files beside the source."""
    folder = tmp_path_factory.mktemp("callback")
    source = shutil.copytree(EXAMPLE, folder / "source")
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--target"]
    done = subprocess.run([*command, folder / "site", source], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def test_a_callback_of_ones_own_gets_every_step_and_a_bug_in_one_disturbs_nothing(train, installed, read_strict):
    run = train("rollout_dump.callbacks=[dump,always_raises,rollout_table]", PYTHONPATH=str(installed))

    log = re.sub(r"^\(\w+ pid=\d+\) ", "", run.log, flags=re.MULTILINE)
    for step in (1, 2):
        records = read_strict(run.dump / f"{step}.jsonl")
        title, *rows = re.search(rf"^step {step} .*\n(?:\w+ +\|.*\n)+", log, re.MULTILINE)[0].splitlines()
        assert [cell.strip() for cell in title.split("|")] == [f"step {step}", "rollouts", "mean", "least", "most"]
        shown = {name: cells for name, *cells in ([cell.strip() for cell in row.split("|")] for row in rows)}
        assert list(shown) == ["score", "acc", "n_numbers", "len"]
        for name, cells in shown.items():
            values = [float(record[name]) for record in records]
            expected = (sum(values) / len(values), min(values), max(values))
            assert cells[0] == str(len(records))
            # Half a thousandth either way, as the last digit of a mean hangs on the order of the sum.
            assert [float(cell) for cell in cells[1:]] == pytest.approx(expected, abs=0.000501)
        best = max(records, key=lambda record: record["score"])
        assert f"best response: {best['output']!r}" in log

    assert log.count("callback AlwaysRaises failed in on_rollout_end; training goes on") == 2
    assert "RuntimeError: a bug in a callback, at step 2" in log
    assert "callback AlwaysRaises failed in on_train_end; training goes on" in log
    record = json.loads((run.dump / "run.json").read_bytes())
    assert (record["state"], record["attempts"][0]["steps"]) == ("complete", "1-2")
    assert record["report"]["steps_failed"] == []
