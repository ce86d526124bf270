"""The part of the table of rules that is for data of other libraries, and for protocols that any class may offer."""

from __future__ import annotations

from verl_rollout_dump.serialization import library_types, numpy_types, stdlib_types
from verl_rollout_dump.serialization.rule import Rule

_FLOATS = (
    "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn",
)  # fmt: skip
_INTEGERS = ("int1", "uint1", "int2", "uint2", "int4", "uint4")

LIBRARY_RULES: tuple[Rule, ...] = (
    Rule(
        "arrow_scalar", "the value that it holds", "pa.scalar(3)", ("pyarrow.Scalar",), library_types.arrow_scalar,
        text=lambda value: str(value.as_py()),
    ),
    Rule(
        "arrow_values", "array; a table becomes an array of rows", "pa.array(['a', None])",
        ("pyarrow.Array", "pyarrow.ChunkedArray", "pyarrow.Table", "pyarrow.RecordBatch"), library_types.arrow_values,
        nests=True, extent=stdlib_types.length, text=library_types.arrow_text,
    ),
    Rule(
        "polars_series", "array", "pl.Series([1, None])", ("polars.Series",), library_types.polars_series,
        nests=True, extent=stdlib_types.length, text=library_types.series_text,
    ),
    Rule(
        "polars_frame", "array of rows, each an object", "pl.DataFrame({'a': [1]})", ("polars.DataFrame",),
        library_types.polars_frame, nests=True, extent=stdlib_types.length, text=library_types.frame_text,
    ),
    Rule(
        "polars_query", "`$marker`", "pl.LazyFrame({'a': [1]})", ("polars.LazyFrame",), library_types.polars_query,
        instead="return the frame that it computes: collect()",
    ),
    Rule("sympy_integer", "number", "sympy.Integer(3)", ("sympy.Integer",), library_types.sympy_integer),
    Rule(
        "sympy_float", "number; text if it has more digits than a double", "sympy.Float('0.5')",
        ("sympy.Float", "sympy.NaN", "sympy.Infinity", "sympy.NegativeInfinity"), library_types.sympy_float,
    ),
    Rule(
        "sympy_truth", "true or false", "sympy.true", ("sympy.BooleanTrue", "sympy.BooleanFalse"),
        library_types.sympy_truth,
    ),
    Rule(
        "sympy_matrix", "nested arrays of its entries", "sympy.Matrix([[1, 2]])", ("sympy.MatrixBase",),
        library_types.listed, nests=True, extent=numpy_types.shape_extent,
    ),
    Rule("sympy_text", "text", "sympy.Rational(1, 3)", ("sympy.Basic",), library_types.sympy_text),
    Rule(
        "msgspec", "object of its fields", "StructPoint(1, 2)", ("marked.msgspec",), library_types.msgspec_struct,
        nests=True,
    ),
    Rule(
        "narrow_float", "number: its exact value", "ml_dtypes.bfloat16(0.1)",
        tuple(f"ml_dtypes.{name}" for name in _FLOATS), library_types.narrow_float,
    ),
    Rule(
        "narrow_integer", "number", "ml_dtypes.int4(3)", tuple(f"ml_dtypes.{name}" for name in _INTEGERS),
        library_types.narrow_integer,
    ),
    Rule(
        "manager_proxy", "what the manager's process holds", "ManagerProxy([1, 2])", ("multiprocessing.BaseProxy",),
        library_types.manager_proxy, nests=True, text=lambda value: str(value._getvalue()),
    ),
    Rule(
        "proxy", "the object that it stands for", "lazy_object_proxy.Proxy(lambda: 3)",
        ("marked.proxy", "wrapt.ObjectProxy", "wrapt.BaseObjectProxy"), library_types.wrapped,
        nests=True,
    ),
    Rule(
        "array_like", "as numpy reads it", "ArrayLike([1, 2])", ("marked.array", "marked.dlpack"),
        library_types.array_like, nests=True, text=library_types.array_like_text,
    ),
    Rule("listed", "what its `tolist` gives", "Listed([1, 2])", ("marked.list",), library_types.listed, nests=True),
    Rule("mapped", "object", "Mapped(a=1)", ("marked.mapping",), library_types.mapped, nests=True),
)  # fmt: skip
