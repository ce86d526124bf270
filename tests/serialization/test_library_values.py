"""Values of other libraries, and of classes that offer a protocol: written with their data, never as empty markers."""

import datetime
import decimal
import multiprocessing

import attrs
import lazy_object_proxy
import ml_dtypes
import msgspec
import numpy as np
import polars
import pyarrow
import pydantic
import pytest
import sympy
import wrapt
from conversion_examples import ArrayLike, Listed, Mapped, StructPoint, UnsetPoint

from verl_rollout_dump.config.schema import SerializationConfig, Strategy
from verl_rollout_dump.serialization import ConversionReport, Serializer, encode_record


def convert(value, strategy=Strategy.early_convert, **config):
    report = ConversionReport()
    return Serializer(SerializationConfig(strategy=strategy, **config)).convert_value("v", value, report), report


def convert_column(values, strategy=Strategy.early_convert):
    return Serializer(SerializationConfig(strategy=strategy)).convert_column("v", values, ConversionReport())


class Base(pydantic.BaseModel):
    x: int = 1


class Sub(Base):
    y: int = 2
    secret: pydantic.SecretStr = pydantic.SecretStr("no")
    hidden: int = pydantic.Field(3, exclude=True)


class Holder(pydantic.BaseModel):
    item: Base
    items: list[Base] = []


@attrs.define
class AttrsUnset:
    a: int
    b: int = attrs.field(init=False)


class OnlyDlpack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Keyed:
    def keys(self):
        return ["a"]

    def __getitem__(self, key):
        return 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (pyarrow.array(["a", "b"]), ["a", "b"]),
        (pyarrow.chunked_array([[1], [2, None]]), [1, 2, None]),
        (pyarrow.scalar(decimal.Decimal("1.10")), "1.10"),
        (pyarrow.scalar(None, pyarrow.int8()), None),
        (pyarrow.array([{"a": [1]}, None]), [{"a": [1]}, None]),
        (pyarrow.table({"a": [1, 2], "b": ["x", None]}), [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
        (polars.Series([1.5, None]), [1.5, None]),
        (polars.DataFrame({"a": [1], "t": [datetime.date(2026, 1, 2)]}), [{"a": 1, "t": "2026-01-02"}]),
        (sympy.Integer(3), 3),
        (sympy.Rational(1, 3), "1/3"),
        (sympy.Float("0.1"), 0.1),
        (sympy.Float("0.1234567890123456789012345", 25), "0.1234567890123456789012345"),
        (sympy.pi + sympy.Symbol("x"), "x + pi"),
        (sympy.true, True),
        (sympy.nan, None),
        (sympy.Matrix([[1, sympy.Rational(1, 2)]]), [[1, "1/2"]]),
        ([sympy.Integer(1), {"n": sympy.Integer(2)}], [1, {"n": 2}]),
        (StructPoint(1, np.int64(2)), {"x": 1, "y": 2}),
        (StructPoint(msgspec.UNSET, 2), {"y": 2}),
        (ml_dtypes.bfloat16(0.1), 0.10009765625),
        (ml_dtypes.float8_e4m3fn(0.1), 0.1015625),
        (ml_dtypes.int4(-3), -3),
        (np.array([0.1, 2], ml_dtypes.bfloat16), [0.10009765625, 2.0]),
        (np.array([[1, -2]], ml_dtypes.int4), [[1, -2]]),
        (np.array([np.nan], ml_dtypes.bfloat16), [None]),
        (lazy_object_proxy.Proxy(lambda: {"a": np.int64(1)}), {"a": 1}),
        (wrapt.ObjectProxy([1, 2]), [1, 2]),
        (UnsetPoint(1), {"x": 1, "y": None}),
        (AttrsUnset(1), {"a": 1, "b": None}),
        (Holder(item=Sub(), items=[Sub(y=5)]), {"item": {"x": 1, "y": 2, "secret": "**********"},
                                                "items": [{"x": 1, "y": 5, "secret": "**********"}]}),
        (ArrayLike(np.float32([0.1])), [0.1]),
        (ArrayLike(np.array([[1], [2]])), [[1], [2]]),
        (OnlyDlpack(np.arange(3)), [0, 1, 2]),
        (Listed([1, np.int64(2)]), [1, 2]),
        (Mapped(a=np.float64(0.5)), {"a": 0.5}),
        (Keyed(), {"a": 1}),
    ],
)  # fmt: skip
def test_value(value, expected):
    converted, report = convert(value)
    assert converted == expected or str(converted) == str(expected)
    assert not [entry for entry in report.as_list() if entry["rule"] in ("unknown_marker", "failed")]
    assert report.as_list()


def test_the_proxies_of_a_manager():
    with multiprocessing.get_context("fork").Manager() as manager:
        assert convert(manager.list([1, 2]))[0] == [1, 2]
        assert convert(manager.dict(a=1))[0] == {"a": 1}
        assert convert([manager.list([1])])[0] == [[1]]


def test_an_unset_field_is_counted():
    (entry,) = [entry for entry in convert(UnsetPoint(1))[1].as_list() if entry["rule"] == "unset_field"]
    assert (entry["type"], entry["count"]) == ("conversion_examples.UnsetPoint", 1)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pyarrow.array(["a", None]), ["a", None]),
        (pyarrow.chunked_array([[1], [2]]), [1, 2]),
        (polars.Series([1, 2]), [1, 2]),
        (ArrayLike(np.array([[1, 2], [3, 4]])), [[1, 2], [3, 4]]),
        (np.array([0.5, 1], ml_dtypes.bfloat16), [0.5, 1.0]),
    ],
)
def test_column(values, expected):
    assert convert_column(values) == expected


def test_under_str_fallback_the_text_is_whole():
    numbers = list(range(5000))
    for value in (pyarrow.array(numbers), polars.Series(numbers)):
        assert convert(value, Strategy.str_fallback)[0] == str(numbers)
    assert convert(sympy.Rational(1, 3), Strategy.str_fallback)[0] == "1/3"


def test_data_is_cut_where_the_config_says_so():
    assert convert(pyarrow.array([1, 2, 3]), max_elements=2)[0]["$marker"]["length"] == 3


def test_a_query_that_has_not_run_is_a_marker_with_advice():
    value, report = convert(polars.LazyFrame({"a": [1]}))
    assert value["$marker"]["reason"] == "a query that has not run"
    assert "collect()" in report.warnings()[0].message or "collect()" in report.warnings()[-1].message


def test_wide_integers_keep_their_digits():
    converted, _ = convert(sympy.Integer(2) ** 70)
    assert encode_record({"v": converted}) == b'{"v":1180591620717411303424}'


def test_a_protocol_that_fails_is_a_marker():
    class Broken:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("on no host")

    assert convert(Broken())[0]["$marker"]["reason"] == "no rule for this type"
