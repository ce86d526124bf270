"""`register_rule`: the JSON form of a user's own types.

    register_rule(Verdict, "as_dict")                                    # a method of the value
    register_rule("my_package.Answer", lambda answer: answer.text)       # nothing is imported for this

A package registers its rules in every process (Ray actors among them) through an entry point of the group
`verl_rollout_dump.rules`, which names a function without arguments that calls `register_rule`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.metadata import entry_points
from operator import methodcaller
from typing import Any, Protocol
from weakref import WeakSet

from verl_rollout_dump.config.errors import ConfigError
from verl_rollout_dump.serialization.lists import ATOMS
from verl_rollout_dump.serialization.rule import Context, Converter, Node, Rule
from verl_rollout_dump.serialization.type_names import package_name, type_name
from verl_rollout_dump.serialization.values import JsonValue

_ENTRY_POINT_GROUP = "verl_rollout_dump.rules"
# Types that JSON has, or that are converted as whole arrays: no rule is looked up for them.
_FIXED_TYPES: tuple[type[Any], ...] = (*ATOMS, list, tuple, dict, object)
_FIXED = {*map(type_name, _FIXED_TYPES), "numpy.ndarray", "torch.Tensor"}


class _Listener(Protocol):
    """Remembers which rules types follow."""

    def forget_types(self) -> None:
        """Look the rules of all types up again."""


_rules: dict[type[Any] | str, Rule] = {}
# Those that remember the rules of types.
_listeners: WeakSet[_Listener] = WeakSet()


def register_rule(
    kind: type[Any] | str, to_json: Callable[[Any], Any] | str, *, name: str | None = None, instead: str = ""
) -> None:
    """Register the JSON form of a type, subclasses included, for both strategies.

    `kind` is a class or its dotted name (`package.module.Name`, or `package.Name` wherever in the package it is
    defined). `to_json` is a function of the value, or the name of one of its methods; what it returns is converted by
    the rules in turn, so it may hold numpy values or other objects. A value for which it raises becomes a marker.

    The report counts the conversions under `name` (default: the name of the type). `instead` says what to return
    instead if the form loses something; such values are warned about once. A later rule for the same type replaces the
    earlier one. Raises `ValueError` for a type that JSON has, for numbers and arrays of numpy, and for torch tensors,
    and `TypeError` if `to_json` is neither a function nor a name.
    """
    label = kind if isinstance(kind, str) else type_name(kind)
    if label in _FIXED:
        raise ValueError(f"register_rule({label!r}, ...): the form of this type is fixed; register a subclass of it")
    if not callable(to_json) and not isinstance(to_json, str):
        raise TypeError(f"register_rule({label!r}, {to_json!r}): expected a function or the name of a method")
    convert = methodcaller(to_json) if isinstance(to_json, str) else to_json
    output = f"what `{to_json}()` returns" if isinstance(to_json, str) else "what its registered function returns"
    _rules[kind] = Rule(name or label, output, "", convert=_converter(convert), instead=instead, nests=True)
    _forget_types()


def unregister_rule(kind: type[Any] | str) -> None:
    """Remove a registered rule. Raises `KeyError` for a type without one."""
    del _rules[kind]
    _forget_types()


def registered_rule(kind: type[Any]) -> Rule | None:
    """Return the rule that is registered for exactly this class, if there is one."""
    if not _rules:
        return None
    keys: tuple[type[Any] | str, ...] = (kind, type_name(kind), package_name(kind))
    return next((_rules[key] for key in keys if key in _rules), None)


def listen(listener: _Listener) -> None:
    """Call `listener.forget_types()` whenever a rule is registered or removed, as long as it lives."""
    _listeners.add(listener)


@functools.cache
def load_entry_points() -> None:
    """Let the installed packages register their rules, once per process. Raises `ConfigError` if one fails."""
    for point in entry_points(group=_ENTRY_POINT_GROUP):
        try:
            point.load()()
        except Exception as error:
            raise ConfigError(
                [
                    f"the entry point {point.name!r} of the group {_ENTRY_POINT_GROUP} ({point.value}) cannot register "
                    f"its rules: {type(error).__name__}: {error}. Fix or uninstall the package that has it"
                ]
            ) from error


def _forget_types() -> None:
    for listener in list(_listeners):
        listener.forget_types()


def _converter(to_json: Callable[[Any], Any]) -> Converter:
    def convert(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
        return context.value(to_json(value), node, depth)

    return convert
