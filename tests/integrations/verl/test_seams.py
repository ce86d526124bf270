"""The seams: found in the real verl, refused where they differ, never silent."""

import logging
import subprocess
import sys
import textwrap
import types

import pytest

pytestmark = pytest.mark.verl


def run(script, **environment):
    import os

    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, **environment},
    )


def test_importing_verl_is_enough():
    script = """
        import verl
        from verl.trainer.ppo.ray_trainer import RayPPOTrainer
        from verl.trainer.ppo.v1.trainer_base import PPOTrainer
        from verl.utils.config import validate_config
        for trainer in (RayPPOTrainer, PPOTrainer):
            for method in ("__init__", "fit", "_log_rollout_data", "_dump_generations"):
                assert hasattr(getattr(trainer, method), "__wrapped__"), (trainer, method)
        assert hasattr(validate_config, "__wrapped__")
    """
    done = run(script)
    assert done.returncode == 0, done.stderr


def test_verl_without_plugins_is_left_alone():
    script = """
        import sys, verl
        from verl.trainer.ppo.ray_trainer import RayPPOTrainer
        assert not hasattr(RayPPOTrainer._log_rollout_data, "__wrapped__")
        assert "verl_rollout_dump" not in sys.modules
    """
    done = run(script, VERL_USE_EXTERNAL_PLUGINS="none")
    assert done.returncode == 0, done.stderr


def test_external_modules_load_it_too():
    script = """
        import verl
        from verl.trainer.ppo.ray_trainer import RayPPOTrainer
        assert hasattr(RayPPOTrainer._log_rollout_data, "__wrapped__")
    """
    environment = {"VERL_USE_EXTERNAL_PLUGINS": "none", "VERL_USE_EXTERNAL_MODULES": "verl_rollout_dump.plugin"}
    done = run(script, **environment)
    assert done.returncode == 0, done.stderr


def test_a_trainer_that_was_imported_before_is_wrapped_at_once():
    script = """
        import verl
        from verl.trainer.ppo.ray_trainer import RayPPOTrainer
        import verl_rollout_dump.plugin
        assert hasattr(RayPPOTrainer._log_rollout_data, "__wrapped__")
    """
    done = run(script, VERL_USE_EXTERNAL_PLUGINS="none")
    assert done.returncode == 0, done.stderr


def test_a_plugin_that_cannot_load_says_so_loudly():
    script = """
        import sys
        sys.modules["verl_rollout_dump.config.searchpath"] = None  # an import that fails
        import verl
    """
    done = run(script)
    assert done.returncode == 0
    assert "verl_rollout_dump could not be set up" in done.stderr
    assert "ModuleNotFoundError" in done.stderr


def test_a_method_with_other_parameters_is_left_alone_with_a_warning(caplog):
    from verl_rollout_dump.integrations.verl.seams import SEAMS, V1, wrap_methods

    class PPOTrainer:
        def __init__(self, config):
            pass

        def fit(self, agent_loop_manager):
            pass

        def _log_rollout_data(self, batch, timing_raw, rollout_data_dir, new):
            pass

        def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
            pass

    before = dict(vars(PPOTrainer))
    with caplog.at_level(logging.WARNING):
        wrap_methods([seam for seam in SEAMS if seam.module == V1], types.SimpleNamespace(PPOTrainer=PPOTrainer))
    assert dict(vars(PPOTrainer)) == before
    assert "is not one that verl_rollout_dump knows, so verl's own dump stays in charge" in caplog.text
    assert (
        "PPOTrainer._log_rollout_data takes ('self', 'batch', 'timing_raw', 'rollout_data_dir', 'new')" in caplog.text
    )


def test_the_whole_node_composes_into_verls_config():
    import yaml

    command = [sys.executable, "-m", "verl.trainer.main_ppo", "--cfg", "job", "--package", "rollout_dump"]
    overrides = ["+rollout_dump=default", "rollout_dump/serialization=str_fallback", "rollout_dump/fields=core"]
    done = subprocess.run([*command, *overrides], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    node = yaml.safe_load(done.stdout)
    assert node["serialization"]["strategy"] == "str_fallback"
    assert node["path"]["dir"] == "${oc.select:trainer.rollout_data_dir,null}"


def test_a_mistake_ends_the_run_before_ray_starts(tmp_path):
    command = [
        sys.executable,
        "-m",
        "verl.trainer.main_ppo",
        f"hydra.run.dir={tmp_path}",
        f"trainer.rollout_data_dir={tmp_path}",
    ]
    overrides = ["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1", "+rollout_dump.writer.mod=inline"]
    done = subprocess.run([*command, *overrides], capture_output=True, text=True, timeout=180, cwd=tmp_path)
    assert done.returncode == 1
    assert "'rollout_dump.writer.mod' is not a key. Did you mean 'rollout_dump.writer.mode'?" in done.stderr
    assert "ray" not in done.stdout.lower()
