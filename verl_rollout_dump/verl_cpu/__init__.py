"""A CPU platform and a CPU rollout backend for verl 0.9.1, with which laptops and CI run real training.

This module is an entry point of the group `verl.plugins`: verl imports it inside `import verl`, in the driver and
in every Ray process. It does nothing and imports nothing unless `VERL_PLATFORM=cpu` is set.

    python -m verl_rollout_dump.verl_cpu.prepare --model tiny --out DIR     a model and prompts to train with
    python -m verl_rollout_dump.verl_cpu.train [hydra overrides]            a real training, with progress
"""

from __future__ import annotations

import logging
import os

logger = logging.getLogger(__name__)


def _activate() -> None:
    from verl_rollout_dump.verl_cpu.registration import register

    register()


if os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu":
    try:
        _activate()
    except Exception:
        # verl logs the exceptions of plugins at DEBUG only
        logger.exception("VERL_PLATFORM=cpu is set, but the CPU backend for verl could not be registered")
        raise
