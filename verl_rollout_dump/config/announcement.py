"""The one line that is shown when a training starts: which rollouts will be written where, or why none will be."""

from __future__ import annotations

import re
from collections.abc import Iterable

from omegaconf import DictConfig, OmegaConf

from verl_rollout_dump.config.schema import DumpConfig
from verl_rollout_dump.config.validation import NODE, TRAINER_KEYS

_DUMP = "dump"  # the name of the dump in `callbacks`
_ROLLOUTS = {"dir": "training rollouts", "validation_dir": "validation rollouts"}
_ANNOUNCED = re.compile(rf"{NODE}: training rollouts will be written to (.+), validation rollouts will (?:not )?be ")


def start_line(checked: DumpConfig, config: DictConfig) -> str:
    """Return the line for a checked node and the trainer's whole config that it was read from."""
    if not checked.enabled:
        return f"{NODE}: {NODE}.enabled is false, so this package writes nothing; the trainer's own dump is used"
    if checked.path.dir is None and checked.path.validation_dir is None:
        key = TRAINER_KEYS["dir"]
        return f"{NODE}: no rollouts will be dumped: {key} {_state(config, key)}. To dump them, add {key}=DIR"
    if _DUMP not in checked.callbacks:
        return f"{NODE}: no rollouts will be dumped: {NODE}.callbacks is {checked.callbacks} and does not name {_DUMP}"
    return f"{NODE}: " + ", ".join(_place(checked, key, config) for key in TRAINER_KEYS)


def announced_directories(lines: Iterable[str]) -> list[str]:
    """Return the directories of training rollouts that are announced in the output of a training, each once."""
    found = (_ANNOUNCED.match(line) for line in lines)
    return list(dict.fromkeys(match[1] for match in found if match))


def _place(checked: DumpConfig, key: str, config: DictConfig) -> str:
    place = getattr(checked.path, key)
    if place is None:
        return f"{_ROLLOUTS[key]} will not be ({TRAINER_KEYS[key]} {_state(config, TRAINER_KEYS[key])})"
    if key == "validation_dir" and place == checked.path.dir:
        place = f"{place.rstrip('/')}/validation"
    return f"{_ROLLOUTS[key]} will be written to {place}"


def _state(config: DictConfig, key: str) -> str:
    """Return why a trainer's own key gives no directory."""
    group, _, name = key.partition(".")
    node = OmegaConf.select(config, group)
    return "is still ???" if isinstance(node, DictConfig) and OmegaConf.is_missing(node, name) else "is not set"
