"""The adapter for TRL: its parts alone, and `with_trl.py`, which trains with TRL, in an environment of its own.

verl 0.9.1 does not start where TRL 1.16 is installed (it imports `trl.experimental.ppo`, which is no longer there),
so TRL is not installed beside it but into a folder of `.cache`, which only the process of `with_trl.py` looks into.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from verl_rollout_dump.integrations.trl.batches import (
    Reading,
    Scored,
    batch_of,
    logged_columns,
    read_rollouts,
    under_own_names,
)

TRL = "trl==1.16.0"
CACHE = Path(__file__).resolve().parents[3] / ".cache"
WITH_TRL = Path(__file__).with_name("with_trl.py")


@pytest.fixture(scope="session")
def trl_site():
    """The folder with TRL; all that it requires is installed beside verl already."""
    site = CACHE / TRL.replace("==", "-")
    if not site.is_dir():
        CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as partial:
            command = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", f"{partial}/site", TRL]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stdout + done.stderr
            os.rename(f"{partial}/site", site)
    return site


@pytest.mark.verl
@pytest.mark.train
def test_real_trainings_with_trl(trl_site):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", WITH_TRL]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {**kept, "PYTHONPATH": str(trl_site), "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_columns_of_one_name_and_columns_that_do_not_fit():
    notes = []
    reading = Reading((), False, None, notes.append)
    columns = [("acc", [1.0]), ("acc", [0.0]), ("index", [3]), ("acc_2", [9])]
    assert under_own_names(columns, reading) == {"acc": [1.0], "acc_2": [0.0], "index": [3], "acc_2_2": [9]}
    assert len(notes) == 2
    assert "two columns are named 'acc'" in notes[0]
    scored = Scored([{}, {}], ["p", "q"], ["a", "b"], [[1], [2]], None, {"fits": [1, 2], "does_not": [1, 2, 3]})
    assert logged_columns(scored, reading) == [("fits", [1, 2])]
    assert notes[2] == "log_extra was given 3 values of 'does_not' for 2 rollouts: they are left out"


def test_log_probabilities_of_a_rollout_engine_are_cut_to_the_response():
    torch = pytest.importorskip("torch")

    class Trainer:
        accelerator = type("OneProcess", (), {"process_index": 0, "num_processes": 1})
        reward_weights = torch.ones(1)
        reward_func_names = ("acc",)

    rewards = torch.tensor([[1.0], [float("nan")]])
    scored = Scored([{"answer": 4}, {"answer": 5}], ["p", "q"], ["a", "b"], [[7, 8], []], rewards, {})
    output = {
        "prompt_ids": torch.tensor([[0, 5], [6, 7]]),
        "prompt_mask": torch.tensor([[0, 1], [1, 1]]),
        "advantages": torch.tensor([0.5, -0.5]),
        "sampling_per_token_logps": torch.tensor([[-0.5, -0.25], [0.0, 0.0]]),
    }
    first, second = read_rollouts(Trainer(), scored, output, Reading(("answer",), True, None, print))
    batch = batch_of([first, second], 1, "train")
    assert [ids.tolist() for ids in batch.prompts] == [[5], [6, 7]]
    assert [ids.tolist() for ids in batch.responses] == [[7, 8], []]
    assert [values.tolist() for values in batch.log_probs] == [[-0.5, -0.25], []]
    assert (batch.scores, batch.ground_truths, batch.extras["acc"]) == ([1.0, None], [4, 5], [1.0, None])


def test_neither_trl_nor_transformers_is_imported_before_it_is_needed():
    code = (
        "import sys, verl_rollout_dump, verl_rollout_dump.integrations.trl; "
        "print(sorted({'trl', 'torch', 'transformers', 'accelerate'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
