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
class _Seam:
    """A method of a trainer that is wrapped."""

    module: str
    trainer: str
    method: str
    # The names of its parameters: all of them, or, for `_OPEN_ENDED` methods, the first ones.
    parameters: tuple[str, ...]
    wrap: Callable[[Method], Method]


_V0 = "verl.trainer.ppo.ray_trainer"
V1 = "verl.trainer.ppo.v1.trainer_base"
_SYNC = "verl.trainer.main_ppo_sync"
_SEPARATION = "verl.experimental.separation.ray_trainer"
_ONE_STEP_OFF = "verl.experimental.one_step_off_policy.ray_trainer"
_FULLY_ASYNC = "verl.experimental.fully_async_policy.fully_async_trainer"

_LOG_V0 = ("self", "batch", "reward_extra_infos_dict", "timing_raw", "rollout_data_dir")
_LOG_V1 = ("self", "batch", "timing_raw", "rollout_data_dir")
_DUMP = ("self", "inputs", "outputs", "gts", "scores", "reward_extra_infos_dict", "dump_path")
_INIT = ("self", "config")
_FIT = ("self",)

SEAMS = (
    # 0.6.1, 0.7.1, 0.8.0, 0.9.0, 0.9.1, main
    _Seam(_V0, "RayPPOTrainer", "_log_rollout_data", _LOG_V0, fire_rollouts(V0Adapter())),
    _Seam(_V0, "RayPPOTrainer", "_dump_generations", _DUMP, fire_generations),
    _Seam(_V0, "RayPPOTrainer", "__init__", _INIT, start_dump),
    _Seam(_V0, "RayPPOTrainer", "fit", _FIT, end_dump),
    # 0.9.0, 0.9.1, main; its subclasses (sync, colocate_async, separate_async) override none of these
    _Seam(V1, "PPOTrainer", "_log_rollout_data", _LOG_V1, fire_rollouts(V1Adapter())),
    _Seam(V1, "PPOTrainer", "_dump_generations", _DUMP, fire_generations),
    _Seam(V1, "PPOTrainer", "__init__", _INIT, start_dump),
    _Seam(V1, "PPOTrainer", "fit", _FIT, end_dump),
    # 0.8.0
    _Seam(_SYNC, "PPOTrainer", "_log_rollout_data", _LOG_V1, fire_rollouts(V1Adapter())),
    _Seam(_SYNC, "PPOTrainer", "_dump_generations", _DUMP, fire_generations),
    _Seam(_SYNC, "PPOTrainer", "__init__", _INIT, start_dump),
    _Seam(_SYNC, "PPOTrainer", "fit", _FIT, end_dump),
    # 0.7.1, 0.8.0, 0.9.0, 0.9.1, main; these are RayPPOTrainers with a training loop of their own
    _Seam(_SEPARATION, "SeparateRayPPOTrainer", "fit", _FIT, end_dump),
    # 0.8.0, 0.9.0, 0.9.1, main
    _Seam(_ONE_STEP_OFF, "OneStepOffRayTrainer", "fit", _FIT, end_dump_async),
    _Seam(_FULLY_ASYNC, "FullyAsyncTrainer", "fit", _FIT, end_dump_async),
)
_OPEN_ENDED = ("__init__", "fit")  # what further parameters they have is passed through


def install_seams() -> None:
    """Wrap every method of `SEAMS` as soon as its module is imported. Imports nothing of verl."""
    for module_name, function in DRIVER_FUNCTIONS.items():
        when_imported(module_name, functools.partial(resolve_before, function, _wrap_main_module))
    for module_name in dict.fromkeys(seam.module for seam in SEAMS):
        when_imported(module_name, functools.partial(wrap_methods, seams_of(module_name)))


def seams_of(module_name: str) -> list[_Seam]:
    """Return the rows of one module."""
    return [seam for seam in SEAMS if seam.module == module_name]


def _wrap_main_module() -> None:
    """Wrap the trainer of a module that was not imported but run: `python -m verl.trainer.main_ppo_sync`.

    Its classes travel to Ray by value, so they must be wrapped before they do.
    """
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    seams = seams_of(spec.name) if spec is not None else []
    if seams and not hasattr(getattr(main, seams[0].trainer).fit, "__wrapped__"):
        wrap_methods(seams, main)


def wrap_methods(seams: list[_Seam], module: ModuleType) -> None:
    """Wrap all methods of one module's trainer, or, where one is not as expected, none of them."""
    differences = [difference for seam in seams if (difference := differs(seam, module))]
    if differences:
        logger.warning(
            "verl %s is not one that verl_rollout_dump knows, so verl's own dump stays in charge: %s. "
            "Update verl-rollout-dump, or use a verl that it supports (%s)",
            _verl_version(),
            "; ".join(differences),
            SUPPORTED,
        )
        return
    for seam in seams:
        trainer = trainer_class(module, seam.trainer)
        setattr(trainer, seam.method, seam.wrap(getattr(trainer, seam.method)))


def differs(seam: _Seam, module: ModuleType) -> str | None:
    """Return how a method differs from what its seam expects; None: it does not."""
    where = f"{seam.module}.{seam.trainer}.{seam.method}"
    method = getattr(trainer_class(module, seam.trainer), seam.method, None)
    if method is None:
        return f"{where} is not there"
    found = tuple(inspect.signature(method).parameters)
    compared = found[: len(seam.parameters)] if seam.method in _OPEN_ENDED else found
    return None if compared == seam.parameters else f"{where} takes {found}, expected {seam.parameters}"


def trainer_class(module: ModuleType, name: str) -> Any:
    """Return a trainer's class: of one that is a Ray actor, the class that runs in the actor. None: not there."""
    found = getattr(module, name, None)
    actor = getattr(found, "__ray_metadata__", None)
    return actor.modified_class if actor is not None else found


def _verl_version() -> str:
    """Return the version of the verl that is installed, for messages."""
    try:
        return version("verl")
    except PackageNotFoundError:  # a checkout on PYTHONPATH
        return str(getattr(sys.modules.get("verl"), "__version__", "(unknown)"))
