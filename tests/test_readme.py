"""The README's table of values, recomputed: what it says is what is written."""

import datetime
import decimal
import enum
import json
import pathlib
import re

import numpy as np
import pytest

from verl_rollout_dump.config.schema import SerializationConfig, Strategy
from verl_rollout_dump.serialization import ConversionReport, Serializer, encode_record

README = (pathlib.Path(__file__).parent.parent / "README.md").read_text("utf-8")
ROW = re.compile(r"^\| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \|$", re.M)
ROWS = ROW.findall(README[README.index("| returned |") :])


class Judge:
    """A class that no rule knows."""

    def __str__(self):
        return "Judge"


class Verdict(enum.Enum):
    right = "r"


def written(expression, strategy):
    names = {"np": np, "datetime": datetime, "Decimal": decimal.Decimal, "Judge": Judge, "Verdict": Verdict}
    if "torch" in expression:
        names["torch"] = pytest.importorskip("torch")
    value = eval(expression, names)
    converted = Serializer(SerializationConfig(strategy=strategy)).convert_value("v", value, ConversionReport())
    text = encode_record({"v": converted})[len('{"v":') : -1].decode()
    return json.loads(text.replace(f"{__name__}.", "my."))


def test_the_table_is_found():
    assert len(ROWS) >= 7


@pytest.mark.parametrize(("expression", "native", "fallback"), ROWS)
def test_each_row_is_what_is_written(expression, native, fallback):
    assert written(expression, Strategy.early_convert) == json.loads(native)
    assert written(expression, Strategy.str_fallback) == json.loads(fallback)
