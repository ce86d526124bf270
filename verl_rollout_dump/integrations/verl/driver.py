"""The config is checked and resolved in the process that the user started, before Ray is.

A mistake then ends the run at once, with its message last on the screen. And nothing is left to resolve:
`${hydra:...}` and `${now:...}` mean something in this process alone, not in the Ray process that runs the trainer
(hydra-ecosystem/hydra#903).
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from verl_rollout_dump.config.errors import ConfigError, bad_value
from verl_rollout_dump.config.hydra_job import current_job
from verl_rollout_dump.config.resolved import write_resolved
from verl_rollout_dump.config.schema import DumpConfig
from verl_rollout_dump.config.validation import NODE, TRAINER_KEYS
from verl_rollout_dump.storage.sweep_claim import claim_for_job

logger = logging.getLogger(__name__)

# The functions that verl's entry points call with the whole config, as the first thing they do (`auto_set_device`,
# since 0.7), or when they check it themselves (`validate_config`, in 0.6.1 the only one).
DRIVER_FUNCTIONS = {"verl.utils.device": "auto_set_device", "verl.utils.config": "validate_config"}


def resolve_before(name: str, also: Callable[[], None], module: ModuleType) -> None:
    """Wrap a function of verl that gets the whole config, so that the config is resolved before it runs.

    `also` is called at the same time. A release without the function is left as it is.
    """
    original = getattr(module, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def resolved(config: Any, *args: Any, **kwargs: Any) -> Any:
        claim_directories(write_resolved(config))
        _sweep.begin_job()
        also()
        return original(config, *args, **kwargs)

    setattr(module, name, resolved)


def claim_directories(config: DumpConfig) -> None:
    """Claim the directories of a resolved config for the sweep job of this process. Raises `ConfigError`."""
    for key in TRAINER_KEYS:
        place = getattr(config.path, key)
        if config.enabled and place:
            try:
                claim_for_job(place)
            except OSError as error:
                problem = bad_value(f"{NODE}.path.{key}", place, f"a directory that can be written to ({error})")
                raise ConfigError([problem]) from error


class Sweep:
    """The jobs of a sweep that this process runs one after another (Hydra's own launcher does)."""

    def __init__(self) -> None:
        self._job: int | None = None

    def begin_job(self) -> None:
        """End the Ray that an earlier job of the sweep left running; verl then starts one for this job.

        verl never ends it, and the placement groups of the earlier job live as long as it does: the next job finds no
        GPU that is free ("Total available GPUs 0 is less than total desired GPUs").
        """
        job = current_job()
        if job is None or job.job == self._job:
            return
        earlier, self._job = self._job, job.job
        ray = sys.modules.get("ray")
        if earlier is not None and ray is not None and ray.is_initialized():
            logger.warning("job %d of the sweep: ending the Ray of job %d, which holds its GPUs", job.job, earlier)
            ray.shutdown()


_sweep = Sweep()
