"""What a value is once it is ready for JSON, and how types are named."""

from __future__ import annotations

from typing import Any, TypeAlias, Union

import orjson

from verl_rollout_dump.serialization.text import repair_text


class ConversionError(ValueError):
    """A value that the config does not let pass (`unknown: error`, `non_finite: error`).

    Carries `field`, `path` (inside the value, list indices as `[]`), `record` (its index in the batch), `type`
    (the name of the value's type) and `instead` (what the reward function should return).
    """

    def __init__(self, field: str, path: str, record: int, type_name: str, problem: str, instead: str) -> None:
        self.field = field
        self.path = path
        self.record = record
        self.type = type_name
        self.problem = problem
        self.instead = instead
        where = f"field {field!r}" + (f" at {path}" if path else "")
        super().__init__(f"{where}, record {record}: {problem} ({type_name}); {instead}")

    def __reduce__(self) -> tuple[type[ConversionError], tuple[str, str, int, str, str, str]]:
        """Let the error travel between processes."""
        return (type(self), (self.field, self.path, self.record, self.type, self.problem, self.instead))


# Ints lie between -2**63 and 2**64-1, floats are finite, text is valid UTF-8. A Fragment holds the digits of a
# number that orjson cannot write itself.
JsonValue: TypeAlias = Union[bool, int, float, str, "list[JsonValue]", "dict[str, JsonValue]", orjson.Fragment, None]


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
