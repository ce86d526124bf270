"""Values that broke rollout dumps in public: what is read back of each. (The reports are named beside them.)"""
# ruff: noqa: E501 (a table, a case a line)

from __future__ import annotations

import datetime
import decimal
import enum

import numpy as np
import pytest
from conversion_checks import EARLY, TEXT, line_of, read_strictly, rules_of, same, written
from omegaconf import OmegaConf

torch = pytest.importorskip("torch")


class Color(enum.Enum):
    RED = "r"


class Status(str, enum.Enum):
    OK = "ok"


class Opaque:
    pass


def nested_object():
    array = np.empty(2, dtype=object)
    array[:] = [0.5, {"k": [np.int64(2), np.array([True])]}]
    return array


def cycle():
    value = {"a": 1}
    value["self"] = value
    return value


SHARED = {"k": 1}
NAN, INF = float("nan"), float("inf")
TIMES = {
    "ns": np.datetime64("2026-01-02T03:04:05", "ns"),
    "s": np.datetime64("2026-01-02T03:04:05"),
    "nat": np.datetime64("NaT"),
}
PYTHON = {
    "e": Color.RED,
    "t": Status.OK,
    "s": {3, 1, 2},
    "d": decimal.Decimal("0.10"),
    "w": datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc),
}

CASES = [
    ("verl-project/verl#4924, #6167, #6062", {"ok": np.True_, "n": np.int64(3), "f": np.float32(0.5)}, {"ok": True, "n": 3, "f": 0.5}),
    ("verl-project/verl#5810", nested_object(), [0.5, {"k": [2, [True]]}]),
    ("huggingface/datasets#8583", {"lp": np.arange(2000), "t": torch.arange(2000)}, {"lp": list(range(2000)), "t": list(range(2000))}),
    ("bluesky/bluesky#1941", np.array([("a", 1)], dtype=[("name", "U3"), ("n", "i4")]), [{"name": "a", "n": 1}]),
    ("ijl/orjson#180", TIMES, {"ns": "2026-01-02T03:04:05.000000000", "s": "2026-01-02T03:04:05", "nat": None}),
    ("netket/netket#441", {"r": NAN, "p": [INF, -np.inf], "n": np.float32("nan"), "a": np.array([np.nan, 1.0])}, {"r": None, "p": [None, None], "n": None, "a": [None, 1.0]}),
    ("pytorch/pytorch#110285", {"w": torch.tensor([0.5, 0.1], dtype=torch.bfloat16), "g": torch.tensor(2.0, requires_grad=True)}, {"w": [0.5, 0.10009765625], "g": 2.0}),
    ("pytorch/pytorch#119210", torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([3])], layout=torch.jagged), [[1, 2], [3]]),
    ("ijl/orjson#301", [2**64, 2**53 + 1, 10**300], [2**64, 2**53 + 1, 10**300]),
    ("agno-agi/agno#8789", {"b": b"\xff\x00", "n": np.bytes_(b"x")}, {"b": {"$bytes": "/wA="}, "n": {"$bytes": "eA=="}}),
    ("microsoft/agent-framework#2248", PYTHON, {"e": "r", "t": "ok", "s": [1, 2, 3], "d": "0.10", "w": "2026-01-02T00:00:00+00:00"}),
    ("google/adk-python#5414", cycle(), {"a": 1, "self": "<circular>"}),
    ("BerriAI/litellm#31427", {"a": SHARED, "b": SHARED, "c": [SHARED, SHARED]}, {"a": {"k": 1}, "b": {"k": 1}, "c": [{"k": 1}, {"k": 1}]}),
    ("danforthcenter/plantcv#1938", {np.int64(2): "a", (1, 2): "b", 0.5: "c", True: "d"}, {"2": "a", "(1, 2)": "b", "0.5": "c", "true": "d"}),
    ("UKGovernmentBEIS/inspect_ai#2316", {"lone": "ok \ud83d", "pair": "\ud83d\ude00"}, {"lone": "ok \ufffd", "pair": "\U0001f600"}),
    ("volcengine/OpenViking#3984", {"o": "a\u2028b\u2029c\u0085d\fe\u001cf"}, {"o": "a\u2028b\u2029c\u0085d\fe\u001cf"}),
    ("omry/omegaconf#593", {"c": OmegaConf.create({"a": 1, "b": "${a}", "l": [1, 2]})}, {"c": {"a": 1, "b": 1, "l": [1, 2]}}),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_case(value, expected):
    assert same(written(EARLY, value), expected)
    line_of(TEXT, value)


def test_an_object_nobody_knows():
    # PrimeIntellect-ai/prime-rl#2284
    line, report = line_of(EARLY, {"o": Opaque(), "n": 1})
    value = read_strictly(line)["v"]
    assert value["n"] == 1
    assert value["o"]["$marker"]["type"].endswith("Opaque")
    assert b"0x" not in line
    assert rules_of(report) == {"unknown_marker"}
    assert len(report.warnings()) == 1


def test_a_digit_limit_of_python_stops_nothing():
    # PrefectHQ/prefect#15031
    assert int(written(EARLY, 10**5000)["$int"], 16) == 10**5000
