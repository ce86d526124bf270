"""Copies tensors of other devices to host memory without waiting for each copy.

The training thread starts the copies, into pinned memory, and records one event per device; the reader waits for the
event. The device executes what the trainer does to the tensors later after the copies.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from verl_rollout_dump.native import Numbers


class HostCopies:
    """The copies of one snapshot: `begin` ... `begin`, `seal`, and on any thread `wait`."""

    def __init__(self) -> None:
        # By identity, with the tensor, which must live until its copy is complete.
        self._begun: dict[int, tuple[Any, Any]] = {}
        self._arrays: dict[int, tuple[Any, Numbers]] = {}
        self._devices: set[Any] = set()
        self._events: list[Any] = []

    def begin(self, values: Any) -> Any:
        """Return a host copy of a tensor on a device; return anything else as it is."""
        if not is_elsewhere(values):
            return values
        if id(values) not in self._begun:
            self._begun[id(values)] = values, self._copy(values)
        return self._begun[id(values)][1]

    def array(self, values: Any) -> Numbers:
        """Return a tensor, array or list as a numpy array, the same one every time; host memory is shared."""
        if id(values) not in self._arrays:
            here = values
            if is_elsewhere(values) and str(values.dtype) == "torch.bfloat16":
                here = values.float()  # on its device; on the host it would have to be complete
            self._arrays[id(values)] = values, on_host(self.begin(here))
        return self._arrays[id(values)][1]

    def seal(self) -> None:
        """Record on every device that all copies have started. May be called again for later copies."""
        while self._devices:
            device = self._devices.pop()
            stream = getattr(sys.modules["torch"], device.type).current_stream(device)
            self._events.append(stream.record_event())

    def wait(self) -> None:
        """Return when all copies are complete."""
        for event in self._events:
            event.synchronize()
        self._events.clear()
        self._begun.clear()
        self._arrays.clear()

    def _copy(self, tensor: Any) -> Any:
        device = tensor.device
        if not hasattr(getattr(sys.modules["torch"], device.type, None), "current_stream"):
            return tensor.detach().cpu()  # a device without streams
        self._devices.add(device)
        return tensor.detach().to("cpu", non_blocking=True)


def is_elsewhere(values: Any) -> bool:
    """Return whether this is a tensor whose data is not in host memory."""
    device = getattr(values, "device", None)
    kind = getattr(device, "type", "cpu")
    return kind not in ("cpu", "meta") and hasattr(values, "detach") and not getattr(values, "is_nested", False)


def on_host(values: Any) -> Numbers:
    """Return a tensor, array or list as a complete numpy array; host memory is shared."""
    if not hasattr(values, "detach"):
        return np.asarray(values)
    tensor = values.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":
        tensor = tensor.float()  # exact; numpy has no bfloat16
    return np.asarray(tensor)
