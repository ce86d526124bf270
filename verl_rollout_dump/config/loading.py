"""`load_config`: find the `rollout_dump` node in whatever a user passes, resolve its interpolations, check it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from verl_rollout_dump.config import errors
from verl_rollout_dump.config.schema import DumpConfig
from verl_rollout_dump.config.validation import NODE, TRAINER_KEYS, check


def load_config(config: Mapping[str, Any] | DictConfig | DumpConfig | None = None) -> DumpConfig:
    """Return the checked config of the dump.

    `config` is a trainer's whole config (it has a key `rollout_dump` or `trainer`), or the node itself, or any
    part of it as a plain dict; what is not given is the default. Interpolations are resolved, in a whole config
    against the whole config. Raises `ConfigError`, which names every mistake, the choices and the remedy.
    """
    root = as_omegaconf(config)
    if NODE not in root and "trainer" not in root:
        return check(resolve(root))
    if OmegaConf.is_missing(root, NODE):
        raise errors.ConfigError([errors.missing_keys([NODE])])
    node = root[NODE] if NODE in root else OmegaConf.create({})
    if not isinstance(node, DictConfig):
        raise errors.ConfigError([errors.not_a_node(NODE, node)])
    return check(with_trainer_keys(resolve(node), root))


def as_omegaconf(config: object) -> DictConfig:
    """Return what a user gave as an OmegaConf node; refuse what is none."""
    if isinstance(config, DictConfig):
        return config
    if isinstance(config, DumpConfig):
        config = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    if config is None or isinstance(config, Mapping):
        try:
            return OmegaConf.create(dict(config or {}))
        except OmegaConfBaseException as error:
            raise errors.ConfigError([f"{error.full_key or NODE}: {first_line(error)}"]) from error
    raise errors.ConfigError([errors.not_a_node(NODE, config)])


def resolve(node: DictConfig) -> dict[str, Any]:
    """Return the node as plain Python, its interpolations resolved; `???` is an error that names all of them."""
    missing = missing_keys(OmegaConf.to_container(node, resolve=False), NODE)
    if missing:
        raise errors.ConfigError([errors.missing_keys(missing)])
    try:
        return cast("dict[str, Any]", OmegaConf.to_container(node, resolve=True, enum_to_str=True))
    except OmegaConfBaseException as error:
        key = error.full_key or NODE
        raise errors.ConfigError(
            [f"{key} cannot be resolved: {first_line(error)}. Give a plain value, or set what it refers to"]
        ) from error


def missing_keys(container: object, path: str) -> list[str]:
    """Return the full keys of all values that are still `???`."""
    if isinstance(container, dict):
        return [found for key, value in container.items() for found in missing_keys(value, errors.join(path, str(key)))]
    return [path] if container == "???" else []


def first_line(error: Exception) -> str:
    """Return the sentence of an OmegaConf error, without its lines of context."""
    return str(error).splitlines()[0]


def with_trainer_keys(node: dict[str, Any], root: DictConfig) -> dict[str, Any]:
    """Fill the directories that the node leaves open with those of the trainer's own keys."""
    path = node.get("path", {})
    if not isinstance(path, dict):
        return node
    filled = {key: OmegaConf.select(root, trainer_key) for key, trainer_key in TRAINER_KEYS.items()}
    given = {key: value for key, value in path.items() if value is not None}
    return {**node, "path": {**filled, **given}}
