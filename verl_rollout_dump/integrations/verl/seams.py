"""The seams of verl: the methods of its trainers that are wrapped, in every release that can carry the plugin.

Each row of `SEAMS` names a method, the parameters that it must have, and its wrapper with the adapter of its trainer.
If one method of a trainer has other parameters, that trainer is left alone with one warning, and verl dumps by itself.
The comment above the rows names the releases that have them, which the tests run against.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any

from verl_rollout_dump.integrations.post_import import when_imported
from verl_rollout_dump.integrations.verl.driver import DRIVER_FUNCTIONS, resolve_before
from verl_rollout_dump.integrations.verl.releases import SUPPORTED
from verl_rollout_dump.integrations.verl.v0 import V0Adapter
from verl_rollout_dump.integrations.verl.v1 import V1Adapter
from verl_rollout_dump.integrations.verl.wrappers import (
    Method,
    end_dump,
    end_dump_async,
    fire_generations,
    fire_rollouts,
    start_dump,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Seam:
    """A method of a trainer that is wrapped."""

    module: str
    trainer: str
    method: str
    # The names of its parameters: all of them, or, for `OPEN_ENDED` methods, the first ones.
    parameters: tuple[str, ...]
    wrap: Callable[[Method], Method]


V0 = "verl.trainer.ppo.ray_trainer"
V1 = "verl.trainer.ppo.v1.trainer_base"
SYNC = "verl.trainer.main_ppo_sync"
SEPARATION = "verl.experimental.separation.ray_trainer"
ONE_STEP_OFF = "verl.experimental.one_step_off_policy.ray_trainer"
FULLY_ASYNC = "verl.experimental.fully_async_policy.fully_async_trainer"

LOG_V0 = ("self", "batch", "reward_extra_infos_dict", "timing_raw", "rollout_data_dir")
LOG_V1 = ("self", "batch", "timing_raw", "rollout_data_dir")
DUMP = ("self", "inputs", "outputs", "gts", "scores", "reward_extra_infos_dict", "dump_path")
INIT = ("self", "config")
FIT = ("self",)

SEAMS = (
    # 0.6.1, 0.7.1, 0.8.0, 0.9.0, 0.9.1, main
    Seam(V0, "RayPPOTrainer", "_log_rollout_data", LOG_V0, fire_rollouts(V0Adapter())),
    Seam(V0, "RayPPOTrainer", "_dump_generations", DUMP, fire_generations),
    Seam(V0, "RayPPOTrainer", "__init__", INIT, start_dump),
    Seam(V0, "RayPPOTrainer", "fit", FIT, end_dump),
    # 0.9.0, 0.9.1, main; its subclasses (sync, colocate_async, separate_async) override none of these
    Seam(V1, "PPOTrainer", "_log_rollout_data", LOG_V1, fire_rollouts(V1Adapter())),
    Seam(V1, "PPOTrainer", "_dump_generations", DUMP, fire_generations),
    Seam(V1, "PPOTrainer", "__init__", INIT, start_dump),
    Seam(V1, "PPOTrainer", "fit", FIT, end_dump),
    # 0.8.0
    Seam(SYNC, "PPOTrainer", "_log_rollout_data", LOG_V1, fire_rollouts(V1Adapter())),
    Seam(SYNC, "PPOTrainer", "_dump_generations", DUMP, fire_generations),
    Seam(SYNC, "PPOTrainer", "__init__", INIT, start_dump),
    Seam(SYNC, "PPOTrainer", "fit", FIT, end_dump),
    # 0.7.1, 0.8.0, 0.9.0, 0.9.1, main; these are RayPPOTrainers with a training loop of their own
    Seam(SEPARATION, "SeparateRayPPOTrainer", "fit", FIT, end_dump),
    # 0.8.0, 0.9.0, 0.9.1, main
    Seam(ONE_STEP_OFF, "OneStepOffRayTrainer", "fit", FIT, end_dump_async),
    Seam(FULLY_ASYNC, "FullyAsyncTrainer", "fit", FIT, end_dump_async),
)
OPEN_ENDED = ("__init__", "fit")  # what further parameters they have is passed through


def install_seams() -> None:
    """Wrap every method of `SEAMS` as soon as its module is imported. Imports nothing of verl."""
    for module_name, function in DRIVER_FUNCTIONS.items():
        when_imported(module_name, functools.partial(resolve_before, function, wrap_main_module))
    for module_name in dict.fromkeys(seam.module for seam in SEAMS):
        when_imported(module_name, functools.partial(wrap_methods, seams_of(module_name)))


def seams_of(module_name: str) -> list[Seam]:
    """Return the rows of one module."""
    return [seam for seam in SEAMS if seam.module == module_name]


def wrap_main_module() -> None:
    """Wrap the trainer of a module that was not imported but run: `python -m verl.trainer.main_ppo_sync`.

    Its classes travel to Ray by value, so they must be wrapped before they do.
    """
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    seams = seams_of(spec.name) if spec is not None else []
    if seams and not hasattr(getattr(main, seams[0].trainer).fit, "__wrapped__"):
        wrap_methods(seams, main)


def wrap_methods(seams: list[Seam], module: ModuleType) -> None:
    """Wrap all methods of one module's trainer, or, where one is not as expected, none of them."""
    differences = [difference for seam in seams if (difference := differs(seam, module))]
    if differences:
        logger.warning(
            "verl %s is not one that verl_rollout_dump knows, so verl's own dump stays in charge: %s. "
            "Update verl-rollout-dump, or use a verl that it supports (%s)",
            verl_version(),
            "; ".join(differences),
            SUPPORTED,
        )
        return
    for seam in seams:
        trainer = trainer_class(module, seam.trainer)
        setattr(trainer, seam.method, seam.wrap(getattr(trainer, seam.method)))


def differs(seam: Seam, module: ModuleType) -> str | None:
    """Return how a method differs from what its seam expects; None: it does not."""
    where = f"{seam.module}.{seam.trainer}.{seam.method}"
    method = getattr(trainer_class(module, seam.trainer), seam.method, None)
    if method is None:
        return f"{where} is not there"
    found = tuple(inspect.signature(method).parameters)
    compared = found[: len(seam.parameters)] if seam.method in OPEN_ENDED else found
    return None if compared == seam.parameters else f"{where} takes {found}, expected {seam.parameters}"


def trainer_class(module: ModuleType, name: str) -> Any:
    """Return a trainer's class: of one that is a Ray actor, the class that runs in the actor. None: not there."""
    found = getattr(module, name, None)
    actor = getattr(found, "__ray_metadata__", None)
    return actor.modified_class if actor is not None else found


def verl_version() -> str:
    """Return the version of the verl that is installed, for messages."""
    try:
        return version("verl")
    except PackageNotFoundError:  # a checkout on PYTHONPATH
        return str(getattr(sys.modules.get("verl"), "__version__", "(unknown)"))
