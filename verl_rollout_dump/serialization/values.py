"""The JSON-ready values, and the error for a value that the config does not accept."""

from __future__ import annotations

from typing import TypeAlias, Union

import orjson


class ConversionError(ValueError):
    """The config does not accept a value (`unknown: error`, `non_finite: error`).

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
        """Make the error picklable."""
        return (type(self), (self.field, self.path, self.record, self.type, self.problem, self.instead))


# Ints lie between -2**63 and 2**64-1, floats are finite, text is valid UTF-8. A Fragment holds the digits of a
# number that orjson cannot write itself.
JsonValue: TypeAlias = Union[bool, int, float, str, "list[JsonValue]", "dict[str, JsonValue]", orjson.Fragment, None]
