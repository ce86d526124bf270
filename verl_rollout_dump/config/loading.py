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
    root = _as_omegaconf(config)
    if NODE not in root and "trainer" not in root:
        return check(_resolve(root))
    if OmegaConf.is_missing(root, NODE):
        raise errors.ConfigError([errors.missing_keys([NODE])])
    node = root[NODE] if NODE in root else OmegaConf.create({})
    if not isinstance(node, DictConfig):
        raise errors.ConfigError([errors.not_a_node(NODE, node)])
    from_trainer = _keys_of_trainer(node)
    try:
        return check(_with_trainer_keys(_resolve(node), root))
    except errors.ConfigError as error:
        raise errors.ConfigError([_under_own_key(problem, from_trainer) for problem in error.problems]) from error


def _as_omegaconf(config: object) -> DictConfig:
    """Return what a user gave as an OmegaConf node. Raises `ConfigError` for anything but a mapping or a config."""
    if isinstance(config, DictConfig):
        return config
    if isinstance(config, DumpConfig):
        config = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    if config is None or isinstance(config, Mapping):
        try:
            return OmegaConf.create(dict(config or {}))
        except OmegaConfBaseException as error:
            raise errors.ConfigError([f"{error.full_key or NODE}: {_first_line(error)}"]) from error
    raise errors.ConfigError([errors.not_a_node(NODE, config)])


def _resolve(node: DictConfig) -> dict[str, Any]:
    """Return the node as plain Python, its interpolations resolved. Raises `ConfigError`, also for values `???`."""
    missing = _missing_keys(OmegaConf.to_container(node, resolve=False), NODE)
    if missing:
        raise errors.ConfigError([errors.missing_keys(missing)])
    try:
        return cast("dict[str, Any]", OmegaConf.to_container(node, resolve=True, enum_to_str=True))
    except OmegaConfBaseException as error:
        key = (error.full_key or "").removeprefix(f"{NODE}.")
        raise errors.ConfigError([errors.unresolved(errors.join(NODE, key), _first_line(error))]) from error


def _missing_keys(container: object, path: str) -> list[str]:
    """Return the full keys of all values that are still `???`."""
    if isinstance(container, (dict, list)):
        items = container.items() if isinstance(container, dict) else enumerate(container)
        return [missing for key, value in items for missing in _missing_keys(value, errors.join(path, str(key)))]
    return [path] if container == "???" else []


def _first_line(error: Exception) -> str:
    """Return the sentence of an OmegaConf error, without its lines of context."""
    return str(error).splitlines()[0]


def _keys_of_trainer(node: DictConfig) -> list[str]:
    """Return which of the node's directories come from the trainer's own keys: those that the node leaves open.

    Open is also what conf/rollout_dump/path/trainer_dir.yaml has there, an interpolation of the trainer's key.
    """
    path: Any = OmegaConf.to_container(node, resolve=False)
    path = path.get("path") if isinstance(path, dict) else None
    given = path if isinstance(path, dict) else {}
    return [key for key, name in TRAINER_KEYS.items() if given.get(key) in (None, f"${{oc.select:{name},null}}")]


def _with_trainer_keys(node: dict[str, Any], root: DictConfig) -> dict[str, Any]:
    """Fill the directories that the node leaves open with those of the trainer's own keys. Raises `ConfigError`."""
    path = node.get("path", {})
    if not isinstance(path, dict):
        return node
    given = {key: value for key, value in path.items() if value is not None}
    filled = {key: _trainer_value(root, name) for key, name in TRAINER_KEYS.items() if key not in given}
    return {**node, "path": {**filled, **given}}


def _trainer_value(root: DictConfig, key: str) -> Any:
    """Return the value of a trainer's key as plain Python; None where it is missing. Raises `ConfigError`."""
    try:
        value = OmegaConf.select(root, key)
        return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
    except OmegaConfBaseException as error:
        raise errors.ConfigError([errors.unresolved(key, _first_line(error))]) from error


def _under_own_key(problem: str, from_trainer: list[str]) -> str:
    """Return a problem with the keys that the user set: the trainer's own, where a directory comes from them."""
    for key in from_trainer:
        problem = problem.replace(f"{NODE}.path.{key} ", f"{TRAINER_KEYS[key]} ")
    return problem
