"""The seams of verl: where its trainers are entered, so that `on_rollout_end` is fired.

Each row of `SEAMS` names a method, the parameters it must have, and what takes its place. A method whose
parameters are others is left alone, with one loud warning: verl then dumps by itself, as if we were not there.
Besides, a trainer's `__init__` starts the dump (so that a directory that cannot be written to ends the run before
models are loaded), its `fit` ends it, and `validate_config`, which the driver calls before it starts Ray, checks
the config and resolves it: `${hydra:...}` means nothing in the Ray process that runs the trainer.
"""

from __future__ import annotations

import functools
import inspect
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from types import ModuleType
from typing import Any

from verl_rollout_dump.config import DumpConfig, load_config
from verl_rollout_dump.config.resolved import write_resolved
from verl_rollout_dump.hooks import RolloutHooks, build_callbacks
from verl_rollout_dump.integrations.verl_batches import v0_rollouts, v1_rollouts, validation_rollouts
from verl_rollout_dump.post_import import when_imported
from verl_rollout_dump.rollouts import RolloutBatch

logger = logging.getLogger(__name__)

V0 = "verl.trainer.ppo.ray_trainer"
V1 = "verl.trainer.ppo.v1.trainer_base"
ATTRIBUTE = "_rollout_dump"  # where a trainer keeps its `TrainerDump`


@dataclass
class TrainerDump:
    """What we keep on a trainer: its checked config, and the callbacks that its hooks reach."""

    config: DumpConfig
    hooks: RolloutHooks


@dataclass(frozen=True)
class Seam:
    """A method of a trainer that is wrapped."""

    module: str
    trainer: str
    method: str
    parameters: tuple[str, ...]
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]]


def start_dump(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap `__init__`: build the callbacks as soon as the trainer has its config."""

    @functools.wraps(original)
    def init(trainer: Any, *args: Any, **kwargs: Any) -> None:
        original(trainer, *args, **kwargs)
        if ATTRIBUTE not in vars(trainer):
            setattr(trainer, ATTRIBUTE, trainer_dump(trainer.config))

    return init


def trainer_dump(config: Any) -> TrainerDump | None:
    """Start what the config of a trainer asks for; None: nothing, and verl's own code stays in charge.

    Raises `ConfigError` and `DumpError`, which end the run.
    """
    from verl_rollout_dump.callback import RolloutDumpCallback

    checked = load_config(config)
    if not checked.enabled or (checked.path.dir is None and checked.path.validation_dir is None):
        return None
    others = build_callbacks(checked.callbacks)
    dump = [RolloutDumpCallback(checked)] if "dump" in checked.callbacks else []
    return TrainerDump(checked, RolloutHooks([*dump, *others]))


def end_dump(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `fit`: whatever way it ends, what was handed over is written before it returns."""

    @functools.wraps(original)
    def fit(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        dump: TrainerDump | None = getattr(trainer, ATTRIBUTE, None)
        if dump is None:
            return original(trainer, *args, **kwargs)
        try:
            result = original(trainer, *args, **kwargs)
        except BaseException as error:
            dump.hooks.fire_train_failed(error)
            raise
        dump.hooks.fire_train_end()
        return result

    return fit


def fire_rollouts(adapter: Callable[..., RolloutBatch]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Wrap `_log_rollout_data(self, batch, [extras,] timing_raw, rollout_data_dir)`: fire `on_rollout_end` instead."""

    def wrap(original: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(original)

        @functools.wraps(original)
        def log_rollout_data(trainer: Any, *args: Any, **kwargs: Any) -> None:
            dump: TrainerDump | None = getattr(trainer, ATTRIBUTE, None)
            if dump is None or dump.config.path.dir is None:
                original(trainer, *args, **kwargs)
                return
            given = signature.bind(trainer, *args, **kwargs).arguments
            timing = given["timing_raw"]
            started = time.perf_counter()
            columns = {name: given[name] for name in ("batch", "reward_extra_infos_dict") if name in given}
            fire(
                trainer,
                dump,
                dump.hooks.fire_rollout_end,
                functools.partial(adapter, trainer, dump.config, **columns),
            )
            # the name under which verl's own dump shows among the step's timings
            timing["dump_rollout_generations"] = time.perf_counter() - started

        return log_rollout_data

    return wrap


def fire_validation(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap `_dump_generations`: validation alone still comes here; fire `on_validation_end` instead."""

    @functools.wraps(original)
    def dump_generations(
        trainer: Any,
        inputs: Any,
        outputs: Any,
        gts: Any,
        scores: Any,
        reward_extra_infos_dict: Any,
        dump_path: Any,
    ) -> None:
        dump: TrainerDump | None = getattr(trainer, ATTRIBUTE, None)
        if dump is None or dump.config.path.validation_dir is None:
            original(trainer, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path)
            return
        columns = (inputs, outputs, gts, scores, reward_extra_infos_dict)
        read = functools.partial(validation_rollouts, trainer, dump.config, *columns)
        fire(trainer, dump, dump.hooks.fire_validation_end, read)

    return dump_generations


def fire(
    trainer: Any, dump: TrainerDump, hook: Callable[[RolloutBatch], None], read: Callable[[], RolloutBatch]
) -> None:
    """Read the trainer's rollouts and fire a hook. A fault in reading is handled as the dump's own would be."""
    for callback in dump.hooks.callbacks:
        if getattr(callback, "tokenizer", trainer.tokenizer) is None:
            callback.tokenizer = trainer.tokenizer  # type: ignore[attr-defined]
    try:
        batch = read()
    except Exception as error:
        if dump.config.on_error.name == "raise":
            raise
        logger.error(
            "the rollouts of step %s cannot be read (%s: %s), so they are not dumped; training goes on",
            trainer.global_steps,
            type(error).__name__,
            error,
            exc_info=error,
        )
        return
    hook(batch)


def check_in_driver(module: ModuleType) -> None:
    """Wrap `validate_config`, so that a mistake ends the run before Ray starts, and nothing is left to resolve."""
    original = module.validate_config

    @functools.wraps(original)
    def validate_config(config: Any, *args: Any, **kwargs: Any) -> Any:
        write_resolved(config)
        return original(config, *args, **kwargs)

    setattr(module, "validate_config", validate_config)  # noqa: B010  (no attribute of every module)


LOG_V0 = ("self", "batch", "reward_extra_infos_dict", "timing_raw", "rollout_data_dir")
LOG_V1 = ("self", "batch", "timing_raw", "rollout_data_dir")
DUMP = ("self", "inputs", "outputs", "gts", "scores", "reward_extra_infos_dict", "dump_path")

SEAMS = (
    Seam(V0, "RayPPOTrainer", "_log_rollout_data", LOG_V0, fire_rollouts(v0_rollouts)),
    Seam(V0, "RayPPOTrainer", "_dump_generations", DUMP, fire_validation),
    Seam(V0, "RayPPOTrainer", "__init__", ("self", "config"), start_dump),
    Seam(V0, "RayPPOTrainer", "fit", ("self",), end_dump),
    Seam(V1, "PPOTrainer", "_log_rollout_data", LOG_V1, fire_rollouts(v1_rollouts)),
    Seam(V1, "PPOTrainer", "_dump_generations", DUMP, fire_validation),
    Seam(V1, "PPOTrainer", "__init__", ("self", "config"), start_dump),
    Seam(V1, "PPOTrainer", "fit", ("self",), end_dump),
)
# Of these methods the first parameters alone matter: further ones are passed through.
OPEN_ENDED = ("__init__", "fit")


def install_seams() -> None:
    """Wrap every method of `SEAMS` as soon as its module is imported. Imports nothing of verl."""
    when_imported("verl.utils.config", check_in_driver)
    for module_name in dict.fromkeys(seam.module for seam in SEAMS):
        seams = [seam for seam in SEAMS if seam.module == module_name]
        when_imported(module_name, functools.partial(wrap_methods, seams))


def wrap_methods(seams: list[Seam], module: ModuleType) -> None:
    """Wrap all methods of one module's trainer, or, where one is not as expected, none of them."""
    differences = [difference for seam in seams if (difference := differs(seam, module))]
    if differences:
        logger.warning(
            "verl %s is not one that verl_rollout_dump knows, so verl's own dump stays in charge: %s. "
            "Update verl-rollout-dump, or use a verl that it supports (0.9)",
            version("verl"),
            "; ".join(differences),
        )
        return
    for seam in seams:
        trainer = getattr(module, seam.trainer)
        setattr(trainer, seam.method, seam.wrap(getattr(trainer, seam.method)))


def differs(seam: Seam, module: ModuleType) -> str | None:
    """Return how a method differs from what its seam expects; None: it does not."""
    where = f"{seam.module}.{seam.trainer}.{seam.method}"
    method = getattr(getattr(module, seam.trainer, None), seam.method, None)
    if method is None:
        return f"{where} is not there"
    found = tuple(inspect.signature(method).parameters)
    compared = found[: len(seam.parameters)] if seam.method in OPEN_ENDED else found
    return None if compared == seam.parameters else f"{where} takes {found}, expected {seam.parameters}"
