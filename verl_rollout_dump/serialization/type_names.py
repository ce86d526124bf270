"""How types are named: in reports and markers, and in the table of rules."""

from __future__ import annotations

from typing import Any

from verl_rollout_dump.serialization.text import repair_text


def type_name(kind: type[Any]) -> str:
    """Return `module.Name` of a type, or `Name` alone for a builtin; never raises, whatever the metaclass does."""
    try:
        module, name = type.__getattribute__(kind, "__module__"), type.__getattribute__(kind, "__qualname__")
    except Exception:  # a class whose __module__ is a broken descriptor still has a name
        module, name = "?", type.__repr__(kind)
    return repair_text(str(name) if module == "builtins" else f"{module}.{name}")


def package_name(kind: type[Any]) -> str:
    """Return `package.Name`, under which the rules know a type wherever in its package it is defined."""
    name = type_name(kind)
    package, _, rest = name.partition(".")
    if not rest:
        return f"builtins.{name}"
    return f"{package}.{type.__getattribute__(kind, '__qualname__')}"
