"""What to do about an error with which Hydra ends: its own message says what is wrong, rarely what to write."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from typing import Any

from verl_rollout_dump.config.errors import nearest
from verl_rollout_dump.config.resolved import as_container
from verl_rollout_dump.config.schema import DumpConfig
from verl_rollout_dump.config.validation import NODE, TRAINER_KEYS

_SAME_AS_VERL = "give the doctor the arguments that you give to python -m verl.trainer.main_ppo"


def _keys(node: dict[str, Any], path: str) -> Iterator[str]:
    for key, value in node.items():
        yield f"{path}.{key}"
        if isinstance(value, dict):
            yield from _keys(value, f"{path}.{key}")


_NODE_KEYS = tuple(_keys(as_container(DumpConfig()), NODE))


def remedy_for(error: str) -> str:
    """Return what to change on the command line after an error of Hydra's."""
    for pattern, remedy in _REMEDIES.items():
        match = re.search(pattern, error)
        if match:
            return remedy(match)
    return _SAME_AS_VERL


def _unknown_key(match: re.Match[str]) -> str:
    group, _, name = match[1].rpartition(".")
    beside = [
        key.rpartition(".")[2] for key in (*TRAINER_KEYS.values(), *_NODE_KEYS) if key.rpartition(".")[0] == group
    ]
    near = difflib.get_close_matches(name, beside, n=1, cutoff=0.7)
    if near:
        return f"Did you mean {group}.{near[0]}?"
    return f"correct the name of the key, or write +{match[1]}=... to add a key that the config does not have"


def _unknown_option(match: re.Match[str]) -> str:
    options = match[2].split()
    hint = nearest(match[1].rpartition("/")[2], options)
    return f"choose one of: {', '.join(options)}.{hint}"


_REMEDIES: dict[str, Callable[[re.Match[str]], str]] = {
    r"Could not override '([^']+)'": _unknown_key,
    r"Could not find '([^']+)' Available options in '[^']+': (.+)$": _unknown_option,
    r"appears more than once": lambda match: "give +rollout_dump=default once, and leave it out if the config has it",
    r"OverrideParseException": lambda match: "quote the value for the shell and for Hydra: 'key=\"value\"'",
    r"Cannot find primary config": lambda match: (
        "give the --config-name, --config-path or --config-dir of your training"
    ),
    r"unrecognized arguments: (.+)$": lambda match: f"leave out {match[1]}, or write the overrides side by side",
}
