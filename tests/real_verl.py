"""What tests with the real verl share: a tiny model with its questions, and real trainings with them."""

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from verl_rollout_dump.verl_cpu.prepare import prepare
from verl_rollout_dump.verl_cpu.progress import informative_tail
from verl_rollout_dump.verl_cpu.train import command_line, environment, ray_directory

CHECKOUT = Path(__file__).resolve().parents[1]
TRAINING_TIMEOUT_SECONDS = 400

# What the caller's environment says about these stays out of a training: it would change what is tested.
# (TQDM: the progress bar is how a training tells of its steps.)
DROPPED_PREFIXES = ("VERL_", "RAY_", "HYDRA_", "HF_", "TRANSFORMERS_", "OMP_", "CUDA_", "TQDM_", "PYTEST_")


@dataclass(frozen=True)
class Training:
    """A training that has ended."""

    code: int  # its exit code
    dump: Path  # trainer.rollout_data_dir
    log: str  # what verl and Ray's processes printed
    folder: Path  # where it ran; Hydra's outputs/ is in there

    def records(self, step):
        """The records of one step of the dump."""
        return [json.loads(line) for line in (self.dump / f"{step}.jsonl").read_text("utf-8").splitlines()]

    def tail(self):
        """The end of the log, without its usual noise."""
        return informative_tail(self.log, 60)


def run_main_ppo(assets, folder, overrides, variables):
    """Run verl.trainer.main_ppo in `folder` with our conf/verl_cpu.yaml, and wait for it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED_PREFIXES)}
    dump, log = folder / "rollouts", folder / "verl.log"
    flags = [word for word in overrides if word.startswith("-")]  # which must come first
    arguments = [*flags, f"trainer.rollout_data_dir={dump}", *(word for word in overrides if word not in flags)]
    with ray_directory() as ray_dir, log.open("w") as output:
        process = subprocess.Popen(
            command_line(arguments),
            env={**environment(kept, assets, ray_dir), "HYDRA_FULL_ERROR": "1", **variables},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=TRAINING_TIMEOUT_SECONDS)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                tail = informative_tail(log.read_text(errors="replace"), 60)
                pytest.fail(f"the training did not end within {TRAINING_TIMEOUT_SECONDS} s; its last lines:\n{tail}")
            raise
    return Training(code, dump, log.read_text(errors="replace"), folder)


# Fixtures that cost a training or a Ray: the tests that share one run in one process.
SHARED = ("tiny_training", "hostile", "queue")


def pytest_collection_modifyitems(items):
    """Keep the tests that share an expensive fixture together, where tests are run by several processes."""
    for item in items:
        for name in SHARED:
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group(name))


@pytest.fixture(scope="session")
def tiny_assets():
    """The folder with the tiny model and its questions; made once, kept in the checkout's .cache."""
    return prepare("tiny", CHECKOUT / ".cache" / "verl_cpu" / "tiny")


@pytest.fixture(scope="session")
def run_training(tiny_assets, tmp_path_factory):
    """`run_training(*overrides, **environment_variables)` gives a Training, failed or not.

    `folder=` continues in the folder of an earlier training (the same dump), `assets=` takes another model.
    """

    def run(*overrides, folder=None, assets=tiny_assets, **variables):
        return run_main_ppo(assets, folder or tmp_path_factory.mktemp("training"), overrides, variables)

    return run


@pytest.fixture(scope="session")
def train(run_training):
    """As `run_training`, for a training that must succeed; otherwise the test fails with the end of its log."""

    def run(*overrides, **options):
        training = run_training(*overrides, **options)
        if training.code != 0:
            pytest.fail(f"the training ended with exit code {training.code}; its last lines:\n{training.tail()}")
        return training

    return run


@pytest.fixture(scope="session")
def tiny_training(train):
    """One training of two steps with verl's v1 trainer and the plain conf/verl_cpu.yaml, shared by all tests."""
    return train()


@pytest.fixture(scope="module")
def queue():
    """A TransferQueue that runs on a Ray of its own."""
    import ray
    import transfer_queue
    from omegaconf import OmegaConf

    with ray_directory() as ray_dir:
        ray.init(num_cpus=8, include_dashboard=False, _temp_dir=ray_dir, object_store_memory=100_000_000)
        transfer_queue.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1}}}))
        yield transfer_queue
        transfer_queue.close()
        ray.shutdown()


@pytest.fixture
def golden():
    """Compare with what a generation of verl's trainers writes by itself, kept in tests/golden.

    `golden(name, stock, records)`: the file that verl wrote just now is the golden one, and our records have the same
    keys, types and values, the core fields first; scores are float32, of which verl writes all digits of a double.
    """

    def check(name, stock, records):
        kept = CHECKOUT / "tests" / "golden" / f"{name}.jsonl"
        assert stock.read_text("utf-8") == kept.read_text("utf-8")
        theirs = [json.loads(line) for line in kept.read_bytes().split(b"\n") if line]
        assert len(records) == len(theirs)
        for mine, other in zip(records, theirs, strict=True):
            assert list(mine)[:5] == list(other)[:5]
            assert mine.pop("score") == pytest.approx(other.pop("score"), rel=1e-6)
            assert mine == other
            assert {name: type(mine[name]) for name in mine} == {name: type(other[name]) for name in other}

    return check
