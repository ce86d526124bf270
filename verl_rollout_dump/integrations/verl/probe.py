"""What `doctor` runs in a process of its own: verl's real config app, with the user's own arguments.

    python -m verl_rollout_dump.integrations.verl.probe [Hydra's flags and overrides]

Everything that happens in a training before Ray starts happens here: `import verl` loads the plugins, Hydra composes,
the node is resolved in the job. Each fact is printed as one line of JSON after `MARK`, errors included, so that
warnings of other packages are never taken for the error.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
from typing import Any

MARK = "rollout-dump-probe: "
_PLUGIN = "verl_rollout_dump.plugin"


def main() -> None:
    """Run the app with the arguments of this process."""
    try:
        import verl
    except Exception as error:
        _print_fact(import_error=_described(error))
        return
    _print_fact(verl=verl.__version__, plugin_loaded=_PLUGIN in sys.modules)
    if _PLUGIN in sys.modules:
        _print_fact(seams=_seams())
    else:
        _print_fact(plugin_error=_plugin_error())
    _run_app()


def _seams() -> list[dict[str, Any]]:
    """Return, for each trainer of this release, whether its rollouts reach the plugin, and if not, why.

    `hooked` is None for a trainer whose module cannot be imported here.
    """
    from verl_rollout_dump.integrations.verl.seams import SEAMS, differs, seams_of, trainer_class
    from verl_rollout_dump.integrations.verl.wrappers import MARK as OURS

    found: list[dict[str, Any]] = []
    for name, trainer in dict.fromkeys((seam.module, seam.trainer) for seam in SEAMS):
        fact = {"trainer": f"{name}.{trainer}", "hooked": None}
        try:
            module = importlib.import_module(name)
        except Exception as error:
            if not _is_of_another_release(name, error):
                found.append({**fact, "why": _described(error)})
            continue
        method = getattr(trainer_class(module, trainer), "_log_rollout_data", None)
        why = "; ".join(difference for seam in seams_of(name) if (difference := differs(seam, module)))
        found.append({**fact, "hooked": bool(getattr(method, OURS, False)), "why": why})
    return found


def _is_of_another_release(module: str, error: Exception) -> bool:
    """Return whether an import failed since this release of verl has no such module."""
    return isinstance(error, ModuleNotFoundError) and error.name is not None and module.startswith(error.name)


def _plugin_error() -> str:
    """Return why the plugin cannot be imported; empty if it can, and verl only did not load it."""
    try:
        importlib.import_module(_PLUGIN)
    except Exception as error:
        return _described(error)
    return ""


def _run_app() -> None:
    """Run verl's config app, and print what ends it before a job runs."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # an exception, where Hydra would print a part of it and exit
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):
            _app()()
    except SystemExit as error:
        if error.code:
            _print_fact(error=(stderr.getvalue().strip().splitlines() or [""])[-1])
    except Exception as error:
        _print_fact(error=_described(error))


def _app() -> Any:
    import hydra

    @hydra.main(config_path="pkg://verl.trainer.config", config_name="ppo_trainer", version_base=None)
    def app(config: Any) -> None:
        from omegaconf import OmegaConf

        from verl_rollout_dump.config import ConfigError, load_config
        from verl_rollout_dump.config.resolved import as_container

        composed = OmegaConf.select(config, "rollout_dump") is not None
        try:
            _print_fact(node=as_container(load_config(config)), composed=composed)
        except ConfigError as error:
            _print_fact(problems=error.problems, composed=composed)

    return app


def _described(error: BaseException) -> str:
    """Return an exception's type and text in one line, without Hydra's list of search paths."""
    text = str(error).partition("Config search path:")[0]
    return f"{type(error).__name__}: {' '.join(text.split())}"


def _print_fact(**fact: Any) -> None:
    """Print one line for the doctor."""
    print(MARK + json.dumps(fact), flush=True)


if __name__ == "__main__":
    main()
