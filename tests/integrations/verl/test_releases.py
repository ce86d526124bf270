"""Every release line that can carry the plugin: its real wheel, its own trainer classes.

The wheels are unpacked beside today's libraries, in which these modules import (0.6.1 with one name put back that
transformers 5 dropped; see release_probe.py). Trainers are built without their workers, which need GPUs.
"""

import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from verl_rollout_dump.integrations.verl.releases import RELEASES

pytestmark = pytest.mark.verl

CACHE = Path(__file__).resolve().parents[3] / ".cache/verl_wheels"
PROBE = Path(__file__).parent / "release_probe.py"
LATEST = ["v0", "v1", "colocate_async", "separate_async", "separation", "one_step_off", "fully_async"]
THROUGH_TRANSFER_QUEUE = ["v1", "colocate_async", "separate_async", "sync"]
TRAINERS = {
    "0.6.1": ["v0"],
    "0.7.1": ["v0", "separation"],
    "0.8.0": ["v0", "sync", "separation", "one_step_off", "fully_async"],
    "0.9.0": LATEST,
    "0.9.1": LATEST,
}
assert tuple(TRAINERS) == RELEASES
ROWS = [
    {"input": "ab", "output": "ba", "gts": "g", "score": 1.0, "step": 1, "acc": True},
    {"input": "cde", "output": "edc", "gts": None, "score": 0.5, "step": 1, "acc": False},
]
UIDS = {"v0": ["u", "v"], "v1": ["u_0_2", "u_0_10"]}
VALIDATION = [{"input": "a", "output": "b", "gts": "g", "score": 1.0, "step": 1, "reward": 1.0}]


@pytest.fixture(scope="session")
def release():
    """Return the folder of an unpacked release, which is downloaded once."""

    def unpacked(version):
        folder = CACHE / version
        if not folder.exists():
            CACHE.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(CACHE), f"verl=={version}"]
            subprocess.run(command, check=True, timeout=300)
            temporary = folder.with_suffix(f".{os.getpid()}")
            zipfile.ZipFile(next(CACHE.glob(f"verl-{version}-*.whl"))).extractall(temporary)
            temporary.rename(folder)
        return folder

    return unpacked


def run(folder, *command, modules="verl_rollout_dump.plugin", **environment):
    path = os.pathsep.join(filter(None, [str(folder), environment.pop("PYTHONPATH", "")]))
    return subprocess.run(
        [sys.executable, "-W", "ignore", *map(str, command)],
        env={**os.environ, "PYTHONPATH": path, "VERL_USE_EXTERNAL_MODULES": modules, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
    )


@pytest.mark.parametrize("version", list(TRAINERS))
def test_every_trainer_of_a_release_dumps_the_same(release, tmp_path, read_strict, version):
    done = run(release(version), PROBE, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if line in [*LATEST, "sync"]] == TRAINERS[version]
    for trainer in TRAINERS[version]:
        uids = UIDS["v1" if trainer in THROUGH_TRANSFER_QUEUE else "v0"]
        expected = [{**row, "uid": uid} for row, uid in zip(ROWS, uids, strict=True)]
        assert read_strict(tmp_path / trainer / "1.jsonl") == expected
        assert read_strict(tmp_path / trainer / "validation/1.jsonl") == VALIDATION


def test_a_trainer_that_is_run_as_a_script_travels_wrapped(release, tmp_path):
    """0.8.0's `python -m verl.trainer.main_ppo_sync`: its classes go to Ray by value, out of `__main__`."""
    (tmp_path / "script_probe.py").write_text(
        textwrap.dedent(
            """
            import sys
            from verl_rollout_dump.integrations.post_import import when_imported

            def run_ppo(config, task_runner_class):
                import ray.cloudpickle as pickle
                trainer = sys.modules["__main__"].PPOTrainer
                there = pickle.loads(pickle.dumps(trainer))
                print("wrapped:", hasattr(there._log_rollout_data, "__wrapped__"), hasattr(there.fit, "__wrapped__"))
                print("dir:", config.rollout_dump.path.dir)

            when_imported("verl.trainer.main_ppo", lambda module: setattr(module, "run_ppo", run_ppo))
            """
        )
    )
    overrides = [
        "trainer.rollout_data_dir=relative",
        "+rollout_dump=default",
        "algorithm.adv_estimator=grpo",
        "critic.enable=false",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1",
        f"hydra.run.dir={tmp_path}",
    ]
    modules = "verl_rollout_dump.plugin,script_probe"
    script = ("-m", "verl.trainer.main_ppo_sync", *overrides)
    done = run(release("0.8.0"), *script, modules=modules, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wrapped: True True" in done.stdout
    assert f"dir: {release('0.8.0')}/relative" in done.stdout
