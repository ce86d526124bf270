"""Which rule a type follows: by names, so that no foreign package is imported to recognise its types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from verl_rollout_dump.serialization.rule import Rule
from verl_rollout_dump.serialization.table import RULE_OF
from verl_rollout_dump.serialization.values import package_name

# The base classes and the attributes of a class, whatever its metaclass makes of such questions.
BASES = type.__dict__["__mro__"].__get__
NAMESPACE = type.__dict__["__dict__"].__get__

# What a class has that belongs to no base class with a name.
MARKS = {
    "_is_tensorclass": "marked.tensorclass",
    "__attrs_attrs__": "marked.attrs",
    "__dataclass_fields__": "marked.dataclass",
    "__next__": "marked.iterator",
    "__anext__": "marked.iterator",
}


def find_rule(kind: type[Any]) -> Rule | None:
    """Return the rule of a type, None if there is none."""
    return next((RULE_OF[name] for name in names(kind) if name in RULE_OF), None)


def names(kind: type[Any]) -> Iterator[str]:
    """Yield the names a rule may know a type by: those of its base classes, then the marks its classes bear.

    Neither isinstance() nor a method of the type is asked: either may be overridden, and raise.
    """
    bases = BASES(kind)
    yield from map(package_name, bases)
    for mark, name in MARKS.items():
        if any(mark in NAMESPACE(base) for base in bases):
            yield name
