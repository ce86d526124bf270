"""`ConfigError` and the wording of its messages: the key, the value, what was expected, what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

_SEARCH_PATH_REMEDY = (
    "Hydra sets a plain string if it does not find the config group, since our conf/ is not on its search path. "
    "Install verl-rollout-dump in the environment that runs the app (verl then loads it by itself), or add "
    "hydra.searchpath=[pkg://verl_rollout_dump.conf] to the command line"
)


class ConfigError(ValueError):
    """The `rollout_dump` node cannot be used. `problems` holds one sentence per mistake."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        head = f"rollout_dump: {len(self.problems)} mistake{'s' if len(self.problems) > 1 else ''} in the config"
        super().__init__("\n".join([head, *(f"  - {problem}" for problem in self.problems)]))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[list[str]]]:
        return (ConfigError, (self.problems,))  # Ray pickles what a worker raises


def unknown_key(path: str, key: str, known: Iterable[str]) -> str:
    """Say that a key does not exist, and name the most similar one."""
    known = list(known)
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f" Did you mean {join(path, near[0])!r}?" if near else ""
    return f"{join(path, key)!r} is not a key.{hint} Keys here: {', '.join(known)}"


def not_a_node(key: str, value: object) -> str:
    """Say that a value was given for `rollout_dump` or one of its groups, which are nodes."""
    if value is None:
        return f"{key} is null where a node belongs. Leave the key out to get the defaults, or set its keys"
    if isinstance(value, str) and "." in key:
        return (
            f"{key} is the string {value!r} where a node belongs: a dot sets the value, a slash chooses the "
            f"option. Did you mean {key.replace('.', '/')}={value}?"
        )
    if isinstance(value, str):
        return f"{key} is the string {value!r} where a node belongs. {_SEARCH_PATH_REMEDY}"
    return f"{key} is a {type(value).__name__} ({value!r}) where a node belongs"


def missing_keys(keys: Iterable[str]) -> str:
    """Say which keys are still `???`."""
    return f"mandatory values are missing (still ???): {', '.join(sorted(keys))}. Set each of them"


def bad_choice(key: str, value: object, choices: Iterable[str]) -> str:
    """Say that a value is not one of the choices."""
    choices = list(choices)
    return f"Unsupported {key} {value!r}. Supported: {', '.join(choices)}.{nearest(str(value), choices)}"


def bad_value(key: str, value: object, expected: str) -> str:
    """Say that a value is of the wrong kind or out of range."""
    return f"{key} is {value!r}; expected {expected}"


def unresolved(key: str, reason: str) -> str:
    """Say that the interpolation in a value cannot be resolved."""
    return f"{key} cannot be resolved: {reason}. Give a plain value, or set what it refers to"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean ...?" with the known name that is most like a mistyped one; empty where none is."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""


def join(path: str, key: str) -> str:
    """Join two parts of a dotted key; either may be empty."""
    return f"{path}.{key}" if path and key else path or key
