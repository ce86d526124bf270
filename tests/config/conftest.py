"""A Hydra app of its own, run as a user runs it: in a process, in a folder."""

import subprocess
import sys
import textwrap

import pytest

APP = """
    import verl_rollout_dump.plugin  # what `import verl` does through the entry point
    import hydra
    from verl_rollout_dump import RolloutBatch, RolloutDumpCallback

    @hydra.main(config_path=".", config_name="app", version_base=None)
    def main(config):
        from verl_rollout_dump.integrations.verl.driver import prepare
        prepare(config)  # what verl's entry points do first
        if config.trainer.rollout_data_dir is None:
            return
        with RolloutDumpCallback.from_config(config) as callback:
            import numpy as np
            callback.on_rollout_end(RolloutBatch(
                step=1, prompts=["p"], responses=["r"], scores=[1.0], ground_truths=["g"],
                extras={"n": np.array([np.int64(3)]), "acc": [np.bool_(True)]}))

    main()
"""


@pytest.fixture
def app(tmp_path):
    """Run a Hydra app in a process of its own, in a folder of its own."""
    (tmp_path / "app.py").write_text(textwrap.dedent(APP))
    (tmp_path / "app.yaml").write_text("trainer: {rollout_data_dir: null, validation_data_dir: null}\n")

    def run(*overrides):
        return subprocess.run(
            [sys.executable, "app.py", *overrides], cwd=tmp_path, capture_output=True, text=True, timeout=120
        )

    return run
