"""Write the resolved node back into a trainer's config, before the config travels to another process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from verl_rollout_dump.config.errors import ConfigError, bad_value
from verl_rollout_dump.config.loading import NODE, TRAINER_KEYS, load_config
from verl_rollout_dump.config.schema import DumpConfig
from verl_rollout_dump.config.urls import absolute, is_url
from verl_rollout_dump.storage.sweep_claim import claim_for_job


def write_resolved(config: DictConfig) -> DumpConfig:
    """Check the node and put it into the config with nothing left to resolve; return it.

    Directories become absolute here: relative ones are relative to the working directory of the process that the
    user started (Hydra's output directory under `hydra.job.chdir=true`). verl's own keys get the same values, since
    its trainers ask them whether to dump at all. Raises `ConfigError`.
    """
    checked = load_config(config)
    directories = {key: getattr(checked.path, key) for key in TRAINER_KEYS}
    if not checked.enabled or not any(directories.values()):
        return checked
    for key, directory in directories.items():
        if directory:
            place = absolute(directory)
            setattr(checked.path, key, place)
            if not is_url(place):
                claim(place)
            with open_dict(config):
                OmegaConf.update(config, TRAINER_KEYS[key], place)
    with open_dict(config):
        config[NODE] = as_container(checked)
    return checked


def claim(directory: str) -> None:
    """Claim a directory for the job of a sweep; one that cannot be written to is a mistake in the config."""
    try:
        claim_for_job(Path(directory))
    except OSError as error:
        raise ConfigError([bad_value(f"{NODE}.path.dir", directory, f"a directory to write to ({error})")]) from error


def as_container(config: DumpConfig) -> dict[str, Any]:
    """Return the node as plain Python, enums by the names that stand in a config."""
    container: Any = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    return dict(container)
