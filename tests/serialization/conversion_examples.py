"""What the examples in the table of rules are evaluated with, and the table of `docs/conversion.md` they make.

python tests/serialization/conversion_examples.py   writes the table into docs/conversion.md
"""
# ruff: noqa: F401 (the examples name what is imported here)

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import types
import uuid
from multiprocessing.managers import BaseProxy
from typing import Any

import attrs
import lazy_object_proxy
import ml_dtypes
import msgspec
import numpy as np
import pandas as pd
import PIL.Image
import polars as pl
import pyarrow as pa
import pydantic
import sympy
import torch
from omegaconf import OmegaConf
from tensordict import NonTensorData, NonTensorStack, TensorDict, lazy_stack, tensorclass

from verl_rollout_dump.config.schema import NonFinite, SerializationConfig, Strategy, Unknown
from verl_rollout_dump.serialization import ConversionReport, Serializer, encode_record
from verl_rollout_dump.serialization.rule import Rule
from verl_rollout_dump.serialization.table import RULES

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "conversion.md"
START, END = "<!-- table of rules: start -->\n", "<!-- table of rules: end -->\n"
SHOWN = 90  # characters of a line in the table


class Color(enum.Enum):
    RED = "r"


class Opaque:
    pass


class ArrayLike:
    """Offers the array protocol, as arrays of jax do."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)


class Listed:
    def __init__(self, values):
        self.values = values

    def tolist(self):
        return list(self.values)


class Mapped:
    def __init__(self, **fields):
        self.fields = fields

    def to_dict(self):
        return self.fields


class StructPoint(msgspec.Struct):
    x: Any
    y: Any


@dataclasses.dataclass
class UnsetPoint:
    x: Any
    y: Any = dataclasses.field(init=False)


class ManagerProxy(BaseProxy):
    """A proxy of a manager, without the manager's process."""

    def __init__(self, content):
        self.content = content

    def _getvalue(self):
        return self.content


class BrokenList(collections.UserList):
    def __iter__(self):
        raise RuntimeError("not today")


@dataclasses.dataclass
class Point:
    x: Any
    y: Any


@attrs.define
class AttrsPoint:
    x: Any
    y: Any


class Verdict(pydantic.BaseModel):
    ok: bool
    key: pydantic.SecretStr


@tensorclass
class TensorPair:
    first: torch.Tensor
    second: str


def circular_dict():
    value = {"a": 1}
    value["self"] = value
    return value


def nested_lists(depth):
    return [nested_lists(depth - 1)] if depth > 1 else []


def fake_tensor():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.zeros(2)


CONFIGS = {
    "non_finite_string": SerializationConfig(non_finite=NonFinite.string),
    "too_long": SerializationConfig(max_chars=3),
    "too_many_elements": SerializationConfig(max_elements=4),
    "unknown_text": SerializationConfig(unknown=Unknown.str),
    "stringified": SerializationConfig(strategy=Strategy.str_fallback),
}


def written(rule: Rule) -> tuple[str, ConversionReport]:
    """Return the JSON text of a rule's example, and the report that came with it."""
    report = ConversionReport()
    serializer = Serializer(CONFIGS.get(rule.name, SerializationConfig()))
    value = serializer.convert_value("field", eval(rule.example, globals()), report)
    return encode_record({"": value}).decode()[len('{"":') : -1], report


def row(rule: Rule) -> str:
    """Return the row of a rule."""
    kinds = ", ".join(f"`{name.removeprefix('builtins.')}`" for name in rule.types) or "any"
    text = written(rule)[0]
    text = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    cells = (f"`{rule.name}`", kinds, rule.output, f"`{rule.example}`", f"`{text}`", "yes" if rule.lossy else "")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def table() -> str:
    """Return the table of all rules."""
    head = "| rule | types | written as | example | line | warned about |\n|---|---|---|---|---|---|\n"
    return head + "".join(map(row, RULES))


def page(text: str) -> str:
    """Return the page with its table made anew."""
    before, rest = text.split(START)
    return before + START + "\n" + table() + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    import conversion_examples  # under this name, which the examples' own types bear in the markers

    PAGE.write_text(conversion_examples.page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
