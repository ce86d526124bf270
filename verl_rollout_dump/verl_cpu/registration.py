"""What makes verl 0.9.1 run on a CPU, as a table: a module of verl, and what is done after it is imported.

Nothing here imports verl or torch. Each preparation runs right after its module has been imported, before another
module can import a name from it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import ModuleType

from verl_rollout_dump.integrations.post_import import when_imported
from verl_rollout_dump.verl_cpu.server_config import ROLLOUT_NAME


def _register_platform(_: ModuleType) -> None:
    """Make `VERL_PLATFORM=cpu` known to verl."""
    from verl_rollout_dump.verl_cpu import platform

    platform.register()


def _use_gloo(distributed: ModuleType) -> None:
    """Open the process group with `gloo` alone.

    verl asks for "cpu:gloo,<device>:<backend>", which is "cpu:gloo,cpu:gloo" here, and torch refuses a device
    that is named twice.
    """
    original: Callable[..., None] = vars(distributed)["initialize_global_process_group_ray"]

    @functools.wraps(original)
    def initialize(timeout_second: float | None = None, backend: str | None = None) -> None:
        original(timeout_second=timeout_second, backend=backend or "gloo")

    vars(distributed)["initialize_global_process_group_ray"] = initialize


def _register_adapter(rollout_base: ModuleType) -> None:
    """Register the class that pushes weights to the rollout server, by name: verl imports it when it needs it."""
    rollout_base._ROLLOUT_REGISTRY[(ROLLOUT_NAME, "async")] = "verl_rollout_dump.verl_cpu.rollout.WeightPusher"


def _register_replica(rollout_replica: ModuleType) -> None:
    """Register the class that starts the rollout server; it is imported when verl needs it."""

    def load() -> type:
        from verl_rollout_dump.verl_cpu.rollout import CpuReplica

        return CpuReplica

    rollout_replica.RolloutReplicaRegistry.register(ROLLOUT_NAME, load)


_PREPARATIONS: dict[str, Callable[[ModuleType], None]] = {
    "verl.plugin.platform": _register_platform,
    "verl.utils.distributed": _use_gloo,
    "verl.workers.rollout.base": _register_adapter,
    "verl.workers.rollout.replica": _register_replica,
}


def register() -> None:
    """Schedule every preparation; one whose module has been imported already runs now."""
    # verl's table of training engines has no "cpu" key; the FSDP engine is listed under "cuda".
    os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")
    for module_name, prepare in _PREPARATIONS.items():
        when_imported(module_name, prepare)
