"""The table of rules: type, name, output, and what to return instead if something is lost.

The table in `docs/conversion.md` is made from it, and a test computes every example again. A type is found by the
name of its package and its own name, along its base classes from the nearest to the furthest, so no foreign package
is imported.
"""

from __future__ import annotations

from verl_rollout_dump.serialization import (
    json_types,
    numpy_types,
    stdlib_types,
    torch_types,
)
from verl_rollout_dump.serialization.outcomes import OUTCOMES
from verl_rollout_dump.serialization.rule import Rule
from verl_rollout_dump.serialization.table_libraries import LIBRARY_RULES
from verl_rollout_dump.serialization.table_objects import OBJECT_RULES, PANDAS_RULES

# What JSON has itself. Both strategies write these alike, subclasses included.
_NATIVE_RULES: tuple[Rule, ...] = (
    Rule("null", "null", "None", ("builtins.NoneType",), json_types.unchanged, counted=False),
    Rule("bool", "true or false", "True", ("builtins.bool",), json_types.unchanged, counted=False),
    Rule("integer", "number", "3", ("builtins.int",), json_types.integer, counted=False),
    Rule("float", "number", "0.1", ("builtins.float",), json_types.floating, counted=False),
    Rule("text", "text", "'é'", ("builtins.str",), json_types.text, counted=False),
    Rule(
        "list", "array", "[1, 'a']", ("builtins.list",), json_types.array,
        nests=True, counted=False, extent=json_types.list_extent,
    ),
    Rule(
        "tuple", "array; names of a named tuple are not written", "(1, 2)", ("builtins.tuple",),
        json_types.array_of_tuple, nests=True, extent=json_types.tuple_extent,
    ),
    Rule(
        "dict", "object", "{'a': 1}", ("builtins.dict",), json_types.mapping,
        nests=True, counted=False, extent=json_types.mapping_extent,
    ),
)  # fmt: skip

_STDLIB_RULES: tuple[Rule, ...] = (
    Rule(
        "mapping", "object", "collections.OrderedDict(b=1, a=2)",
        ("collections.OrderedDict", "collections.Mapping", "builtins.mappingproxy"), stdlib_types.ordered_mapping,
        nests=True, extent=stdlib_types.length,
    ),
    Rule(
        "namespace", "object of its attributes", "types.SimpleNamespace(a=1)",
        ("types.SimpleNamespace",), stdlib_types.attributes, nests=True,
    ),
    Rule(
        "sequence", "array", "collections.deque([1, 2])",
        (
            "collections.deque", "collections.Sequence", "array.array",
            "builtins.dict_keys", "builtins.dict_values", "builtins.dict_items",
        ),
        stdlib_types.sequence, nests=True, extent=stdlib_types.length,
    ),
    Rule("user_text", "text", "collections.UserString('a')", ("collections.UserString",), stdlib_types.as_text),
    Rule(
        "range", "array; a marker if longer than a million", "range(3)", ("builtins.range",),
        stdlib_types.range_of_integers, nests=True, extent=stdlib_types.length,
    ),
    Rule(
        "set", "array, sorted: null, bools, numbers, text, the rest by its JSON text", "{3, 1, 'a', None}",
        ("builtins.set", "builtins.frozenset", "collections.Set"), stdlib_types.unordered,
        nests=True, extent=stdlib_types.length, text=stdlib_types.set_text,
    ),
    Rule(
        "bytes", "`$bytes` marker: base64, decoded back", "b'\\xff\\x00'",
        ("builtins.bytes", "builtins.bytearray", "builtins.memoryview"), stdlib_types.data,
        text=stdlib_types.bytes_text,
    ),
    Rule(
        "complex", "`$complex` marker: both parts, decoded back", "complex(1, -2)",
        ("builtins.complex",), stdlib_types.complex_number,
    ),
    Rule("enum", "its value", "Color.RED", ("enum.Enum",), stdlib_types.enum_value),
    Rule(
        "number_text", "text, all digits", "decimal.Decimal('0.10')",
        ("decimal.Decimal", "fractions.Fraction"), stdlib_types.as_text,
    ),
    Rule(
        "name_text", "text", "uuid.UUID(int=1)",
        (
            "uuid.UUID", "ipaddress.IPv4Address", "ipaddress.IPv6Address",
            "ipaddress.IPv4Network", "ipaddress.IPv6Network",
        ),
        stdlib_types.as_text,
    ),
    Rule("path", "text", "pathlib.PurePosixPath('a/b')", ("pathlib.PurePath",), stdlib_types.path),
    Rule(
        "time", "ISO 8601", "datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)",
        ("datetime.datetime", "datetime.date", "datetime.time"), stdlib_types.moment,
    ),
    Rule(
        "duration", "ISO 8601 duration", "datetime.timedelta(days=1, seconds=2.5)",
        ("datetime.timedelta",), stdlib_types.duration,
    ),
    Rule(
        "exception", "object of its type and message (and of those a group holds)", "ValueError('no answer')",
        ("builtins.BaseException",), stdlib_types.exception, nests=True,
    ),
    Rule(
        "iterator", "`$marker`; it is not consumed", "iter([1, 2])", ("marked.iterator",), stdlib_types.iterator,
        instead="return list(...) of it",
    ),
    Rule(
        "code", "`$marker` with the name", "len",
        (
            "builtins.function", "builtins.builtin_function_or_method", "builtins.method",
            "builtins.method_descriptor", "builtins.type", "builtins.module", "functools.partial",
            "builtins.method-wrapper", "builtins.wrapper_descriptor", "functools._lru_cache_wrapper", "numpy.ufunc",
            "numpy._ArrayFunctionDispatcher",
        ),
        stdlib_types.code, instead="return what it computes, or its name",
    ),
)  # fmt: skip

_NUMPY_RULES: tuple[Rule, ...] = (
    Rule("numpy_bool", "true or false", "np.True_", ("numpy.bool", "numpy.bool_"), numpy_types.boolean, leaf=bool),
    Rule("numpy_integer", "number", "np.int64(3)", ("numpy.integer",), numpy_types.integer, leaf=int),
    Rule("numpy_double", "number", "np.float64(0.1)", ("numpy.float64",), numpy_types.double),
    Rule(
        "numpy_single", "number: the shortest decimal that reads back to it", "np.float32(0.1)",
        ("numpy.float32",), numpy_types.single,
    ),
    Rule(
        "numpy_float", "number: the shortest decimal that reads back to it", "np.float16(0.1)",
        ("numpy.floating",), numpy_types.number,
    ),
    Rule(
        "numpy_complex", "`$complex` marker: both parts, decoded back", "np.complex64(1 + 0.1j)",
        ("numpy.complexfloating",), numpy_types.number,
    ),
    Rule("numpy_text", "text", "np.str_('a')", ("numpy.str_", "numpy.str"), json_types.text),
    Rule(
        "numpy_time", "ISO 8601 in its own unit, null for NaT", "np.datetime64('2026-01-02T03:04:05', 'ns')",
        ("numpy.datetime64",), numpy_types.datetime64,
    ),
    Rule(
        "numpy_duration", "ISO 8601 duration, null for NaT, a number without unit", "np.timedelta64(1500, 'ms')",
        ("numpy.timedelta64",), numpy_types.timedelta64,
    ),
    Rule(
        "numpy_record", "object of its fields; raw bytes under `$bytes`",
        "np.array([('a', 1)], dtype=[('name', 'U3'), ('n', 'i4')])[0]", ("numpy.void",), numpy_types.void, nests=True,
    ),
    Rule(
        "numpy_array", "nested arrays of its items; without axes the value alone",
        "np.array([[0.1, 0.2]], dtype=np.float32)", ("numpy.ndarray",), numpy_types.ndarray,
        nests=True, extent=numpy_types.array_extent, text=numpy_types.array_text,
    ),
    Rule(
        "numpy_masked", "nested arrays, null where masked", "np.ma.array([1, 2], mask=[False, True])",
        ("numpy.MaskedArray",), numpy_types.masked_array,
        nests=True, extent=numpy_types.array_extent, text=numpy_types.masked_text,
    ),
    Rule("numpy_masked_value", "null", "np.ma.masked", ("numpy.MaskedConstant",), numpy_types.missing),
    Rule("numpy_dtype", "its name", "np.dtype('int64')", ("numpy.dtype",), numpy_types.dtype),
)  # fmt: skip

_TORCH_RULES: tuple[Rule, ...] = (
    Rule(
        "tensor",
        "nested arrays (also nested, sparse and quantized ones); without axes the value alone; "
        "bfloat16 and float8 as their exact value; `$marker` without data",
        "torch.tensor([0.5, 0.1], dtype=torch.bfloat16)", ("torch.Tensor",), torch_types.tensor,
        nests=True, extent=torch_types.tensor_extent, text=torch_types.tensor_text,
    ),
    Rule(
        "tensor_elsewhere", "`$marker` with shape and dtype", "fake_tensor()",
        ("torch.DTensor", "torch.FakeTensor", "torch.FunctionalTensor"), torch_types.placed_elsewhere,
        instead="return a plain tensor, gathered on every rank",
    ),
    Rule(
        "torch_name", "its name", "torch.float32",
        ("torch.dtype", "torch.device", "torch.layout", "torch.memory_format"), stdlib_types.as_text,
    ),
)  # fmt: skip

_TYPE_RULES = (
    *_NATIVE_RULES,
    *_STDLIB_RULES,
    *_NUMPY_RULES,
    *_TORCH_RULES,
    *PANDAS_RULES,
    *OBJECT_RULES,
    *LIBRARY_RULES,
)
RULES: tuple[Rule, ...] = (*_TYPE_RULES, *OUTCOMES)
RULE_OF: dict[str, Rule] = {name: rule for rule in _TYPE_RULES for name in rule.types}
NATIVE: dict[str, Rule] = {name: rule for rule in _NATIVE_RULES for name in rule.types}
