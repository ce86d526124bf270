"""Objects of other libraries, and of users: what is written, by both strategies."""
# ruff: noqa: E501 (tables, a case a line)

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import pytest
from conversion_checks import EARLY, TEXT, line_of, marker, rules_of, same, written

attrs = pytest.importorskip("attrs")
pd = pytest.importorskip("pandas")
pydantic = pytest.importorskip("pydantic")
PIL_Image = pytest.importorskip("PIL.Image")
from omegaconf import OmegaConf  # noqa: E402


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = None
    shared: ClassVar[int] = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    x: Any


@attrs.define
class AttrsPoint:
    x: Any
    y: Any


class Verdict(pydantic.BaseModel):
    ok: bool
    key: pydantic.SecretStr
    hidden: int = pydantic.Field(default=1, exclude=True)
    rows: Any = None


class Numbers(pydantic.RootModel[list[int]]):
    pass


MASK = "**********"
MISSING = marker("omegaconf", "a mandatory value that is missing", text="???")
UNRESOLVED = marker("omegaconf", "an interpolation that cannot be resolved", text="${nope}")
IMAGE = marker("PIL.Image.Image", "an image", size=[2, 3], mode="RGB")

# name, value, what early_convert writes, what str_fallback writes
CASES = [
    ("dataclass", lambda: Point(1, np.int64(2)), {"x": 1, "y": 2}, "Point(x=1, y=np.int64(2))"),
    ("slotted dataclass", lambda: Slotted(Point([])), {"x": {"x": [], "y": None}}, "Slotted(x=Point(x=[], y=None))"),
    ("attrs", lambda: AttrsPoint(1, {2}), {"x": 1, "y": [2]}, "AttrsPoint(x=1, y={2})"),
    ("pydantic", lambda: Verdict(ok=True, key="s3", rows=np.arange(2)), {"ok": True, "key": MASK, "rows": [0, 1]}, "ok=True key=SecretStr('**********') hidden=1 rows=array([0, 1])"),
    ("root model", lambda: Numbers([1, 2]), [1, 2], "root=[1, 2]"),
    ("secrets", lambda: [pydantic.SecretStr("s3"), pydantic.SecretBytes(b"s3"), pydantic.Secret[int](3)], [MASK, MASK, MASK], [MASK, f"b'{MASK}'", MASK]),
    ("url", lambda: pydantic.HttpUrl("https://a.b/c"), "https://a.b/c", "https://a.b/c"),
    ("DictConfig", lambda: OmegaConf.create({"a": 1, "b": "${a}", "l": [1, "${a}"]}), {"a": 1, "b": 1, "l": [1, 1]}, "{'a': 1, 'b': '${a}', 'l': [1, '${a}']}"),
    ("ListConfig", lambda: OmegaConf.create([1, {"a": None}]), [1, {"a": None}], "[1, {'a': None}]"),
    ("unresolvable", lambda: OmegaConf.create({"a": "???", "b": "${nope}", "c": 1}), {"a": MISSING, "b": UNRESOLVED, "c": 1}, "{'a': '???', 'b': '${nope}', 'c': 1}"),
    ("image", lambda: PIL_Image.new("RGB", (2, 3)), IMAGE, "<PIL.Image.Image image mode=RGB size=2x3>"),
    ("NA", lambda: [pd.NA, pd.NaT], [None, None], ["<NA>", "NaT"]),
    ("Timestamp", lambda: [pd.Timestamp("2026-01-02", tz="UTC"), pd.Timestamp(1)], ["2026-01-02T00:00:00+00:00", "1970-01-01T00:00:00.000000001"], ["2026-01-02 00:00:00+00:00", "1970-01-01 00:00:00.000000001"]),
    ("Timedelta", lambda: pd.Timedelta("1.5s"), "PT1.5S", "0 days 00:00:01.500000"),
    ("Period", lambda: pd.Period("2026-01"), "2026-01", "2026-01"),
    ("Interval", lambda: pd.Interval(0, 1), {"left": 0, "right": 1, "closed": "right"}, "(0, 1]"),
    ("Series", lambda: pd.Series([1, 2]), [1, 2], "0    1\n1    2"),
    ("Series with labels", lambda: pd.Series({"a": 1, "b": 2.5}), {"a": 1.0, "b": 2.5}, "a    1.0\nb    2.5"),
    ("Series of floats", lambda: pd.Series([0.5, float("nan")]), [0.5, None], "0    0.5\n1    NaN"),
    ("DataFrame", lambda: pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], "   a  b\n0  1  x\n1  2  y"),
    ("DataFrame with labels", lambda: pd.DataFrame({"a": [1]}, index=["r"]), [{"index": "r", "a": 1}], "   a\nr  1"),
    ("empty DataFrame", pd.DataFrame, [], "Empty DataFrame\nColumns: []\nIndex: []"),
    ("Categorical", lambda: pd.Categorical(["a", None]), ["a", None], "Categorical(['a', None])"),
    ("Index", lambda: pd.Index([1, 2]), [1, 2], "Index([1, 2])"),
    ("nullable", lambda: pd.array([1, None]), [1, None], "IntegerArray([1, None])"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "early", "text"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_value(value, early, text):
    assert same(written(EARLY, value()), early)
    assert same(written(TEXT, value()), text)


def test_missing_text_of_pandas_is_no_nan():
    line, report = line_of(EARLY, pd.DataFrame({"b": pd.Series(["x", None], dtype="string")}))
    assert line == b'{"v":[{"b":"x"},{"b":null}]}'
    assert "non_finite_null" not in rules_of(report)


def test_secrets_never_show():
    for value in (
        Verdict(ok=True, key="s3cret"),
        {"k": pydantic.SecretStr("s3cret")},
        Point(pydantic.SecretBytes(b"s3cret")),
    ):
        for serializer in (EARLY, TEXT):
            assert b"s3cret" not in line_of(serializer, value)[0]
