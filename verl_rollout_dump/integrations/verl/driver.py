"""The process that the user started, before Ray: it resolves the config and checks all that the dump needs.

A mistake then ends the run within seconds, with its message last on the screen. Nothing is left to resolve later:
`${hydra:...}` and `${now:...}` have a meaning in this process only, not in the Ray process that runs the trainer
(hydra-ecosystem/hydra#903).
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from omegaconf import OmegaConf

from verl_rollout_dump.config.announcement import start_line
from verl_rollout_dump.config.hydra_job import current_job
from verl_rollout_dump.config.resolved import write_resolved
from verl_rollout_dump.hooks import DUMP, check_callbacks
from verl_rollout_dump.integrations.verl.driver_signals import watch_ray
from verl_rollout_dump.storage.opening import claim_directory, directories_of
from verl_rollout_dump.storage.start_check import check_directories

logger = logging.getLogger(__name__)

# The functions that verl's entry points call with the whole config, as the first thing they do (`auto_set_device`,
# since 0.7), or when they check it themselves (`validate_config`, in 0.6.1 the only one).
DRIVER_FUNCTIONS = {"verl.utils.device": "auto_set_device", "verl.utils.config": "validate_config"}


def resolve_before(name: str, also: Callable[[], None], module: ModuleType) -> None:
    """Wrap a function of verl that gets the whole config, so that `prepare` runs before it.

    `also` is called at the same time. A release without the function is left as it is.
    """
    original = getattr(module, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def resolved(config: Any, *args: Any, **kwargs: Any) -> Any:
        prepare(config)
        also()
        return original(config, *args, **kwargs)

    setattr(module, name, resolved)


def prepare(config: Any) -> None:
    """Resolve the node in a trainer's config and, before Ray has started, check all that a dump needs.

    Prints one line that says what will be written where. Raises `ConfigError` and `DumpError`.
    """
    checked = write_resolved(config)
    _sweep.begin_job()
    for place in directories_of(checked).values():
        claim_directory(place)
    if _is_ray_initialized():  # a process of Ray, or a driver that has been here already
        return
    print(start_line(checked, config), flush=True)
    if not checked.enabled or (checked.path.dir is None and checked.path.validation_dir is None):
        return
    check_callbacks(checked.callbacks)
    watch_ray()
    if DUMP in checked.callbacks and _is_ray_started_here(config):
        check_directories(checked)


def _is_ray_initialized() -> bool:
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


def _is_ray_started_here(config: Any) -> bool:
    """Return whether verl will start Ray on this machine. Elsewhere the trainer may see other directories."""
    addresses = [OmegaConf.select(config, key) for key in ("ray_kwargs.ray_init.address", "ray_init.address")]
    return not any(address not in (None, "local") for address in [*addresses, os.environ.get("RAY_ADDRESS")])


class _Sweep:
    """The jobs of a sweep that this process runs one after another (Hydra's own launcher does)."""

    def __init__(self) -> None:
        self._job: int | None = None

    def begin_job(self) -> None:
        """Shut down the Ray that an earlier job of the sweep left running; verl then starts one for this job.

        verl never shuts it down, and it keeps the placement groups of the earlier job. The next job would find no
        free GPU ("Total available GPUs 0 is less than total desired GPUs").
        """
        job = current_job()
        if job is None or job.job == self._job:
            return
        earlier, self._job = self._job, job.job
        ray = sys.modules.get("ray")
        if earlier is not None and ray is not None and ray.is_initialized():
            logger.warning("sweep job %d: shutting down the Ray of job %d, which holds the GPUs", job.job, earlier)
            ray.shutdown()


_sweep = _Sweep()
