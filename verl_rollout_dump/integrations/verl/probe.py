"""What `doctor` runs in a process of its own: verl's real config app, with the user's own arguments.

    python -m verl_rollout_dump.integrations.verl.probe [Hydra's flags and overrides]

Everything that happens in a training before Ray starts happens here: `import verl` loads the plugins, Hydra composes,
the node is resolved in the job. Then, for each job, one line of JSON behind `MARK` is printed.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

MARK = "rollout-dump-probe: "


def seams() -> list[dict[str, Any]]:
    """Say of each trainer of this release whether its rollouts come to us."""
    from verl_rollout_dump.integrations.verl.seams import SEAMS, trainer_class
    from verl_rollout_dump.integrations.verl.wrappers import MARK as OURS

    found: list[dict[str, Any]] = []
    for name, trainer in dict.fromkeys((seam.module, seam.trainer) for seam in SEAMS):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):  # not this release's: its dependency
                found.append({"trainer": f"{name}.{trainer}", "hooked": None, "why": str(error)})
            continue
        method = getattr(trainer_class(module, trainer), "_log_rollout_data", None)
        found.append({"trainer": f"{name}.{trainer}", "hooked": bool(getattr(method, OURS, False))})
    return found


def tell(**what: Any) -> None:
    """Print one line for the doctor."""
    print(MARK + json.dumps(what), flush=True)


def main() -> None:
    """Run the app with the arguments of this process."""
    import verl

    tell(verl=verl.__version__, plugin_loaded="verl_rollout_dump.plugin" in sys.modules)
    tell(seams=seams())
    import hydra

    @hydra.main(config_path="pkg://verl.trainer.config", config_name="ppo_trainer", version_base=None)
    def app(config: Any) -> None:
        from omegaconf import OmegaConf

        from verl_rollout_dump.config import ConfigError, load_config
        from verl_rollout_dump.config.resolved import as_container

        composed = OmegaConf.select(config, "rollout_dump") is not None
        try:
            tell(node=as_container(load_config(config)), composed=composed)
        except ConfigError as error:
            tell(problems=error.problems, composed=composed)

    app()


if __name__ == "__main__":
    main()
