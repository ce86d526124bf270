"""Write the resolved node back into a trainer's config, before the config travels to another process."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from verl_rollout_dump.config.loading import load_config
from verl_rollout_dump.config.schema import DumpConfig
from verl_rollout_dump.config.urls import absolute
from verl_rollout_dump.config.validation import NODE, TRAINER_KEYS


def write_resolved(config: DictConfig) -> DumpConfig:
    """Check the node and replace it in the config by its resolved form; return it.

    Relative directories become absolute, from the working directory in which the user started the command. verl's
    own keys get the same values, since its trainers read them to decide whether to dump at all. A config that asks
    for no dump is left as it is. Raises `ConfigError`.
    """
    checked = load_config(config)
    directories = {key: getattr(checked.path, key) for key in TRAINER_KEYS}
    if not checked.enabled or not any(directories.values()):
        return checked
    with open_dict(config):
        for key, directory in directories.items():
            if directory:
                setattr(checked.path, key, absolute(directory))
                OmegaConf.update(config, TRAINER_KEYS[key], absolute(directory))
        config[NODE] = as_container(checked)
    return checked


def as_container(config: DumpConfig) -> dict[str, Any]:
    """Return the node as plain Python, with enums as the names that users write."""
    container: Any = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    return dict(container)
