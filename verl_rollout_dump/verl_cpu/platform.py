"""verl's `PlatformBase` for a machine without an accelerator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

from verl_rollout_dump.verl_cpu import device


class CpuPlatform(PlatformBase):  # type: ignore[misc]  # verl has no types here
    """One device, the CPU. Ray is told that it is a GPU (`ray_init.num_gpus=1`): verl places workers on GPUs."""

    @property
    def device_name(self) -> str:
        """torch's name of the device type."""
        return "cpu"

    @property
    def vendor_name(self) -> str:
        """No vendor has engines of its own for a CPU."""
        return "generic"

    @property
    def device_module(self) -> ModuleType:
        """The module that verl uses in place of `torch.cuda`."""
        return device

    def is_available(self) -> bool:
        """Return True."""
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        """Return False, so that only VERL_PLATFORM=cpu chooses this platform, not verl's detection of accelerators."""
        return False

    # verl's annotation says int, but the value goes into `tensor.to(...)`, where an int means a CUDA device.
    def current_device(self) -> torch.device:
        """Return the device that tensors go to."""
        return torch.device("cpu")

    def device_count(self) -> int:
        """Return the number of devices: one."""
        return 1

    def set_device(self, device_index: int) -> None:
        """Do nothing: there is one device."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Do nothing: calls on a CPU are synchronous."""

    def manual_seed(self, seed: int) -> None:
        """Seed torch's default generator."""
        device.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seed torch's default generator."""
        device.manual_seed_all(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """Do nothing: there is no device allocator."""

    def empty_cache(self) -> None:
        """Do nothing: there is no device memory."""

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        """Return (None, None): a CPU has no compute capability."""
        return (None, None)

    def communication_backend_name(self) -> str:
        """Return torch.distributed's backend for CPU tensors."""
        return "gloo"

    def visible_devices_envvar(self) -> str:
        """Return the variable that Ray sets for its (pretended) GPUs."""
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        """Yield without marking a range."""
        yield

    def profiler_start(self) -> None:
        """Do nothing: there is no device profiler."""

    def profiler_stop(self) -> None:
        """Do nothing: there is no device profiler."""

    def ray_resource_name(self) -> str:
        """Return the resource that verl asks Ray for."""
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        """Return []: Ray may set the visible devices, since nothing reads them."""
        return []

    def is_ipc_supported(self) -> bool:
        """Return False: there is no device memory to share."""
        return False

    def cudart(self) -> None:
        """Return None: there is no CUDA runtime."""


def register() -> None:
    """Register the platform under the name that VERL_PLATFORM gives."""
    PlatformRegistry.register(platform="cpu")(CpuPlatform)
