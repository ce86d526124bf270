"""The module that verl gets in place of `torch.cuda`: `torch.cpu`, and the functions that it lacks.

A CPU has no device memory to measure or to release, so those functions return zero or do nothing.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch.cpu import (
    Event,
    Stream,
    current_device,
    current_stream,
    device_count,
    is_available,
    set_device,
    stream,
    synchronize,
)

__all__ = [
    "Event",
    "Stream",
    "current_device",
    "current_stream",
    "device_count",
    "empty_cache",
    "get_device_name",
    "get_rng_state",
    "ipc_collect",
    "is_available",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "stream",
    "synchronize",
]


def _nothing_allocated(device: Any = None) -> int:
    """Return 0 bytes: there is no device memory."""
    return 0


def _nothing_to_do(*args: Any, **kwargs: Any) -> None:
    """Take any arguments and do nothing."""


memory_allocated = memory_reserved = max_memory_allocated = max_memory_reserved = _nothing_allocated
empty_cache = ipc_collect = reset_peak_memory_stats = set_per_process_memory_fraction = _nothing_to_do


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return the machine's free and total memory, in bytes."""
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_AVPHYS_PAGES") * page_bytes, os.sysconf("SC_PHYS_PAGES") * page_bytes


def get_device_name(device: Any = None) -> str:
    """Return the name of the device."""
    return "cpu"


def manual_seed(seed: int) -> None:
    """Seed torch's default generator."""
    torch.manual_seed(seed)


manual_seed_all = manual_seed


def get_rng_state(device: Any = None) -> torch.Tensor:
    """Return the state of torch's default generator."""
    return torch.get_rng_state()


def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
    """Set the state of torch's default generator."""
    torch.set_rng_state(state)
