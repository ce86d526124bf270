"""The checks for an environment without verl: a dump that is started from Python, or by TRL's trainers."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from verl_rollout_dump.config import ConfigError, load_config
from verl_rollout_dump.config.resolved import as_container
from verl_rollout_dump.config.searchpath import conf_location
from verl_rollout_dump.config.validation import NODE, TRAINER_KEYS
from verl_rollout_dump.doctor.probe import Probe
from verl_rollout_dump.integrations.trl.trainer import PARAMETERS

DIRECTORY_KEY = f"{NODE}.path.dir"
_TRL_TRAINERS = {"GRPOTrainer": "grpo_trainer.py", "RLOOTrainer": "rloo_trainer.py"}


def composed(arguments: Sequence[str]) -> Probe:
    """Compose the node from overrides, as a Hydra app with our config groups would, and return what was found.

    Flags of Hydra are left out. `trainer.rollout_data_dir` and `trainer.validation_data_dir` are known keys.
    """
    from hydra import compose, initialize_config_dir, initialize_config_module
    from hydra.errors import HydraException

    kind, _, place = conf_location().partition("://")
    initialize: Any = {"pkg": initialize_config_module, "file": initialize_config_dir}[kind]
    overrides = [word for word in arguments if not word.startswith("-")]
    names_node = any(word.lstrip("+").startswith(f"{NODE}=") for word in overrides)
    given = [f"+{key}=null" for key in TRAINER_KEYS.values()] + ([] if names_node else [f"+{NODE}=default"])
    try:
        with initialize(place, version_base=None):
            config = compose(overrides=[*given, *overrides])
        facts: dict[str, Any] = {"node": as_container(load_config(config)), "composed": True}
    except ConfigError as error:
        facts = {"problems": error.problems, "composed": True}
    except HydraException as error:
        text = str(error).partition("Config search path:")[0]
        facts = {"error": f"{type(error).__name__}: {' '.join(text.split())}"}
    return Probe([facts], directory_key=DIRECTORY_KEY)


def trl_differences() -> Iterator[tuple[str, str]]:
    """Yield each trainer of the installed TRL, and how its methods differ from those that we wrap ("": not at all).

    Read from TRL's source, which takes no time; importing TRL takes many seconds.
    """
    spec = find_spec("trl")
    if spec is None or spec.origin is None:
        return
    for trainer, file in _TRL_TRAINERS.items():
        source = Path(spec.origin).parent / "trainer" / file
        found = _methods(source, trainer) if source.is_file() else {}
        different = [
            f"{name} takes {found.get(name, 'nothing: it is not there')}, expected {parameters}"
            for name, parameters in PARAMETERS.items()
            if found.get(name) != parameters
        ]
        yield trainer, "; ".join(different)


def _methods(source: Path, trainer: str) -> dict[str, tuple[str, ...]]:
    """Return the methods that a class defines in a source file, with the names of their parameters."""
    classes = [node for node in ast.walk(ast.parse(source.read_bytes())) if isinstance(node, ast.ClassDef)]
    return {
        node.name: tuple(argument.arg for argument in node.args.args)
        for found in classes
        if found.name == trainer
        for node in found.body
        if isinstance(node, ast.FunctionDef)
    }
