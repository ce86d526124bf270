"""The part of the table of rules that is for objects of other libraries: pandas, pydantic, OmegaConf, TensorDict."""

from __future__ import annotations

from verl_rollout_dump.serialization import numpy_types, object_types, pandas_types, stdlib_types
from verl_rollout_dump.serialization.rule import Rule

PANDAS_RULES: tuple[Rule, ...] = (
    Rule("pandas_missing", "null", "pd.NA", ("pandas.NAType", "pandas.NaTType"), numpy_types.missing),
    Rule("pandas_time", "ISO 8601", "pd.Timestamp('2026-01-02')", ("pandas.Timestamp",), stdlib_types.moment),
    Rule(
        "pandas_duration", "ISO 8601 duration", "pd.Timedelta('1.5s')", ("pandas.Timedelta",), pandas_types.timedelta
    ),
    Rule("pandas_period", "text", "pd.Period('2026-01')", ("pandas.Period",), stdlib_types.as_text),
    Rule(
        "pandas_interval", "object of left, right and closed", "pd.Interval(0, 1)",
        ("pandas.Interval",), pandas_types.interval, nests=True,
    ),
    Rule(
        "pandas_series", "array; an object of its labels if it has an index other than 0 to n-1",
        "pd.Series({'acc': 1})", ("pandas.Series",), pandas_types.series,
        nests=True, extent=pandas_types.extent, text=pandas_types.whole_text,
    ),
    Rule(
        "pandas_frame", "array of rows, each an object; an index with labels comes first in it",
        "pd.DataFrame({'a': [1], 'b': ['x']})", ("pandas.DataFrame",), pandas_types.frame,
        nests=True, extent=pandas_types.extent, text=pandas_types.whole_text,
    ),
    Rule(
        "pandas_array", "array", "pd.Categorical(['a', 'b'])",
        ("pandas.Index", "pandas.ExtensionArray"), pandas_types.values,
        nests=True, extent=stdlib_types.length, text=pandas_types.list_text,
    ),
)  # fmt: skip

OBJECT_RULES: tuple[Rule, ...] = (
    Rule("dataclass", "object of its fields", "Point(1, 2)", ("marked.dataclass",), object_types.dataclass, nests=True),
    Rule("attrs", "object of its attributes", "AttrsPoint(1, 2)", ("marked.attrs",), object_types.attrs, nests=True),
    Rule(
        "pydantic", "what `model_dump` gives; secrets stay masked", "Verdict(ok=True, key='s3cret')",
        ("pydantic.BaseModel",), object_types.pydantic_model, nests=True,
    ),
    Rule(
        "secret", "asterisks", "pydantic.SecretStr('s3cret')",
        ("pydantic._SecretBase", "pydantic.SecretStr", "pydantic.SecretBytes"), object_types.secret,
    ),
    Rule(
        "pydantic_url", "text", "pydantic.HttpUrl('https://example.org/a')",
        ("pydantic._BaseUrl", "pydantic_core.Url", "pydantic_core.MultiHostUrl"), stdlib_types.as_text,
    ),
    Rule(
        "omegaconf", "object, interpolations resolved", "OmegaConf.create({'a': 1, 'b': '${a}'})",
        ("omegaconf.DictConfig",), object_types.omegaconf_dict, nests=True, extent=stdlib_types.length,
    ),
    Rule(
        "omegaconf_list", "array, interpolations resolved", "OmegaConf.create([1, 2])",
        ("omegaconf.ListConfig",), object_types.omegaconf_list, nests=True, extent=stdlib_types.length,
    ),
    Rule(
        "omegaconf_unresolved", "`$marker` with the text as it stands", "OmegaConf.create({'a': '???'})",
        (f"{object_types.__name__.partition('.')[0]}.Unresolved",), object_types.unresolved,
        instead="set the value, or return the config resolved",
    ),
    Rule(
        "tensordict", "object of its columns", "TensorDict({'a': torch.arange(2)}, batch_size=[2])",
        ("tensordict.TensorDictBase",), object_types.tensordict, nests=True, extent=object_types.batch_extent,
    ),
    Rule(
        "lazy_stack", "array of its members", "lazy_stack([TensorDict({'a': torch.zeros(1)})])",
        ("tensordict.LazyStackedTensorDict",), object_types.lazy_stack,
        nests=True, extent=object_types.batch_extent,
    ),
    Rule(
        "non_tensor", "what it holds", "NonTensorData({'a': 1})",
        ("tensordict.NonTensorDataBase",), object_types.non_tensor_data,
    ),
    Rule(
        "non_tensor_stack", "array of what it holds", "NonTensorStack('a', 'b')",
        ("tensordict.NonTensorStack",), object_types.non_tensor_stack, nests=True, extent=object_types.batch_extent,
    ),
    Rule(
        "tensorclass", "object of its fields", "TensorPair(torch.zeros(1), 'x', batch_size=[1])",
        ("marked.tensorclass", "tensordict.TensorClass"), object_types.tensorclass, nests=True,
        extent=object_types.batch_extent,
    ),
    Rule(
        "image", "`$marker` with size and mode", "PIL.Image.new('RGB', (4, 2))", ("PIL.Image",), object_types.image,
        instead="return its path, or its bytes",
    ),
)  # fmt: skip
