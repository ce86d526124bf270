"""What Hydra knows about this process: which job of a sweep it runs, and where the user started it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONF_PACKAGE = "verl_rollout_dump.conf"
_PER_RUN = "rollout_dump/path=per_run"
_FIXED_DIRECTORIES = ("rollout_dump.path.dir=", "rollout_dump.path.validation_dir=")


@dataclass(frozen=True)
class SweepJob:
    """One job of a sweep: the sweep's directory, the job's number in it, and the overrides of the job."""

    sweep: str
    job: int
    overrides: list[str]


def current_job() -> SweepJob | None:
    """Return the job that Hydra runs in this process; None outside of a sweep."""
    hydra = _hydra_config()
    if hydra is None or hydra.mode is None or hydra.mode.name != "MULTIRUN":
        return None
    sweep = Path(hydra.runtime.cwd) / hydra.sweep.dir
    return SweepJob(str(sweep), int(hydra.job.num), list(hydra.overrides.task))


def starting_folder() -> Path:
    """Return the working directory in which the user started the command.

    Under `hydra.job.chdir=true` it differs from the process's own, which is Hydra's output directory of the job.
    """
    hydra = _hydra_config()
    return Path.cwd() if hydra is None or not hydra.runtime.cwd else Path(hydra.runtime.cwd)


def own_directory_remedy() -> str:
    """Return what to change on the command line of this process so that each job has a directory of its own.

    In a process without Hydra (plain Python, or a process of Ray) it names the keys.
    """
    hydra = _hydra_config()
    if hydra is None:
        return "set trainer.rollout_data_dir=DIR (with verl) or path.dir (in Python) to another directory"
    if hydra.runtime.choices.get("rollout_dump/path") == "per_run":
        fixed = [word for word in hydra.overrides.task if word.lstrip("+").startswith(_FIXED_DIRECTORIES)]
        return f"leave out {' '.join(fixed) or 'rollout_dump.path.dir'}, which replaces the directory of each job"
    if "rollout_dump" in hydra.runtime.choices:
        return f"add {_PER_RUN}"
    is_reachable = any(source.path.endswith(CONF_PACKAGE) for source in hydra.runtime.config_sources)
    search_path = "" if is_reachable else f"hydra.searchpath=[pkg://{CONF_PACKAGE}] "
    return f"add {search_path}+rollout_dump=default {_PER_RUN}"


def _hydra_config() -> Any:
    """Return Hydra's own config of the running job; None where no Hydra app runs in this process."""
    module = sys.modules.get("hydra.core.hydra_config")
    if module is None or not module.HydraConfig.initialized():
        return None
    return module.HydraConfig.get()
