"""Check a resolved `rollout_dump` node against the schema, key by key and as a whole.

All mistakes are collected before any is reported, so a user corrects a command line once.
"""

from __future__ import annotations

import string
from dataclasses import is_dataclass
from enum import Enum
from fnmatch import fnmatchcase
from importlib.util import find_spec
from typing import Any, cast, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from verl_rollout_dump.config import errors
from verl_rollout_dump.config.schema import TRAINER_FIELDS, DumpConfig
from verl_rollout_dump.config.urls import url_problem

NODE = "rollout_dump"
_DIRECTORIES = ("path.dir", "path.validation_dir", "writer.spool_dir")
_DIRECTORY = "one directory or URL, or null"
_NO_NULL = "a directory without a null character in its name"
# verl's own keys, which switch the dump on; they apply wherever the node does not say otherwise.
TRAINER_KEYS = {"dir": "trainer.rollout_data_dir", "validation_dir": "trainer.validation_data_dir"}
# The smallest and the largest value allowed. 200: orjson stops at 254 levels.
_RANGES: dict[str, tuple[int, int | None]] = {
    "serialization.max_depth": (1, 200),
    "serialization.max_chars": (1, None),
    "serialization.max_elements": (1, None),
    "sampling.every_n_steps": (1, None),
    "sampling.max_records": (1, None),
    "writer.max_pending": (1, None),
    "writer.max_pending_bytes": (1, None),
    "writer.retry_seconds": (0, None),
    "writer.timeout_seconds": (1, None),
    "writer.shards": (1, 9999),
    "writer.shard": (0, 9998),
}


def check(node: Any) -> DumpConfig:
    """Return a resolved node as dataclasses. Raises `ConfigError` with all mistakes together."""
    schema = OmegaConf.structured(DumpConfig)
    problems: list[str] = []
    _set_values(schema, node, problems)
    for find_problems in _CHECKS:
        problems += find_problems(schema)
    if problems:
        raise errors.ConfigError(problems)
    return cast(DumpConfig, OmegaConf.to_object(schema))


def _set_values(schema: DictConfig, node: dict[str, Any], problems: list[str], path: str = "") -> None:
    """Set each value of the node in the schema, and note the values that it does not take."""
    known = OmegaConf.select(schema, path) if path else schema
    for key, value in node.items():
        full = errors.join(path, str(key))
        if key not in known:
            problems.append(errors.unknown_key(errors.join(NODE, path), str(key), [str(k) for k in known]))
        elif not isinstance(known[key], DictConfig):
            _set_value(schema, full, value, problems)
        elif isinstance(value, dict):
            _set_values(schema, value, problems, full)
        else:
            problems.append(errors.not_a_node(errors.join(NODE, full), value))


def _set_value(schema: DictConfig, key: str, value: Any, problems: list[str]) -> None:
    """Set one leaf, and note why if the schema does not take the value."""
    full, kind = errors.join(NODE, key), _KINDS[key]
    value = _NORMALIZED.get((key, value), value) if value is None or isinstance(value, str) else value
    if kind in _NOT_FROM_BOOL and isinstance(value, bool):
        problems.append(errors.bad_value(full, value, expected(key)))
        return
    if kind == list[str] and isinstance(value, list) and any(isinstance(name, (list, dict)) for name in value):
        problems.append(errors.bad_value(full, value, expected(key)))
        return
    try:
        OmegaConf.update(schema, key, value)
    except OmegaConfBaseException:
        choices = _CHOICES.get(key)
        problems.append(
            errors.bad_choice(full, value, choices) if choices else errors.bad_value(full, value, expected(key))
        )


def expected(key: str) -> str:
    """Return in words what a leaf of the schema takes."""
    return _DIRECTORY if key in _DIRECTORIES else _EXPECTED[_KINDS[key]]


def _out_of_range(schema: DictConfig) -> list[str]:
    """Return a problem for each number outside its range in `_RANGES`."""
    problems = []
    for key, (low, high) in _RANGES.items():
        value = OmegaConf.select(schema, key)
        if value is not None and (value < low or (high is not None and value > high)):
            allowed = f"from {low} to {high}" if high is not None else f"of at least {low}"
            problems.append(errors.bad_value(errors.join(NODE, key), value, f"a whole number {allowed}"))
    return problems


def _bad_filename(schema: DictConfig) -> list[str]:
    """Return a problem if the template of file names is malformed, or its names cannot be read back as steps."""
    key, template = f"{NODE}.path.filename", schema.path.filename
    try:
        parts = [part for part in string.Formatter().parse(template) if part[1] is not None]
        shown = template.format(step=7)
    except (ValueError, KeyError, IndexError):
        return [errors.bad_value(key, template, "a template with {step} as its only placeholder")]
    if [name for _, name, _, _ in parts] != ["step"]:
        return [errors.bad_value(key, template, "a template with {step} in it once")]
    if not all(_is_plain_number(parts[0], step) for step in (7, 10, 1234567)):
        return [errors.bad_value(key, template, "{step} or {step:06}: other formats cannot be read back as a step")]
    if "/" in shown or "\\" in shown or "\0" in shown or shown.startswith("."):
        return [errors.bad_value(key, template, "a plain file name inside the directory")]
    if not shown.endswith(".jsonl"):
        return [errors.bad_value(key, template, "a name that ends in .jsonl")]
    return []


def _is_plain_number(placeholder: tuple[str, str | None, str | None, str | None], step: int) -> bool:
    """Return whether a placeholder, as `string.Formatter.parse` gives it, writes a step as a decimal number."""
    _, _, spec, conversion = placeholder
    shown = ("{0" + (f"!{conversion}" if conversion else "") + f":{spec or ''}" + "}").format(step)
    return shown.isascii() and shown.isdigit() and int(shown) == step


def _no_field_left(schema: DictConfig) -> list[str]:
    """Return a problem if the whitelist, without what is excluded, lets no field through."""
    include, exclude = list(schema.fields.include), list(schema.fields.exclude)
    if not include:
        return [errors.bad_value(f"{NODE}.fields.include", include, "at least one name or glob, such as ['*']")]
    if all(any(_is_covered(name, pattern) for pattern in exclude) for name in include):
        wanted = f"a list that leaves a field of include ({', '.join(include)})"
        return [errors.bad_value(f"{NODE}.fields.exclude", exclude, wanted)]
    return []


def _is_covered(included: str, excluded: str) -> bool:
    """Return whether a glob that excludes matches all names that another name or glob includes."""
    has_single = any(sign in excluded for sign in "?[") and any(sign in included for sign in "*?[")
    return included == excluded or (not has_single and fnmatchcase(included, excluded))


def _unknown_trainer_field(schema: DictConfig) -> list[str]:
    """Return a problem for each name or glob of `fields.trainer` that matches no field of any trainer."""
    return [
        errors.bad_choice(f"{NODE}.fields.trainer", name, TRAINER_FIELDS)
        for name in schema.fields.trainer
        if not any(fnmatchcase(field, name) for field in TRAINER_FIELDS)
    ]


def _missing_package(schema: DictConfig) -> list[str]:
    """Return a problem for each value that needs a package which is not installed."""
    return [
        f"{NODE}.{key}={value} needs the package {package}, which is not installed. Run: pip install {package}"
        for key, value, package in _NEEDED_PACKAGES
        if getattr(OmegaConf.select(schema, key), "name", None) == value and find_spec(package) is None
    ]


def _unusable_directory(schema: DictConfig) -> list[str]:
    """Return a problem for each directory whose name no file system takes, or whose store cannot be reached."""
    problems = []
    for key in given(schema):
        directory = schema.path[key]
        problem = _NO_NULL if "\0" in directory else url_problem(directory)
        if problem:
            problems.append(errors.bad_value(f"{NODE}.path.{key}", directory, problem))
    return problems


def given(schema: DictConfig) -> list[str]:
    """Return the keys of the directories that are set."""
    return [key for key in TRAINER_KEYS if schema.path[key]]


def _no_such_shard(schema: DictConfig) -> list[str]:
    """Return a problem if the writer's number is not below the number of writers."""
    shard, shards = schema.writer.shard, schema.writer.shards
    if shard < shards:
        return []
    return [errors.bad_value(f"{NODE}.writer.shard", shard, f"a number below writer.shards, which is {shards}")]


def _choices_of(schema: DictConfig, path: str = "") -> dict[str, list[str]]:
    """Return the choices of every key whose type is an enum, read off the schema."""
    found: dict[str, list[str]] = {"writer.compression": [*_COMPRESSIONS]}
    for key in OmegaConf.select(schema, path) if path else schema:
        full = errors.join(path, str(key))
        value = OmegaConf.select(schema, full)
        if isinstance(value, DictConfig):
            found |= _choices_of(schema, full)
        elif isinstance(value, Enum):
            found[full] = [member.name for member in type(value)]
    return found


def _kinds_of(schema: Any, path: str = "") -> dict[str, Any]:
    """Return the type of every leaf of the schema, by its dotted key."""
    kinds: dict[str, Any] = {}
    for name, kind in get_type_hints(schema).items():
        full = errors.join(path, name)
        kinds |= _kinds_of(kind, full) if is_dataclass(kind) else {full: kind}
    return kinds


_COMPRESSIONS = ["null", "zstd", "gzip"]  # null is the default, so the schema's value does not show its enum
# Values as Hydra reads them from a command line, and what users mean by them.
_NORMALIZED: dict[tuple[str, Any], Any] = {
    ("serialization.non_finite", None): "null",
    ("writer.compression", "null"): None,
    ("path.dir", ""): None,  # as verl: an empty directory means no dump
    ("path.validation_dir", ""): None,
}
# The type of each leaf of the schema -> what is expected, in words.
_EXPECTED: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    str: "text",
    int | None: "a whole number or null",
    str | None: "text or null",
    list[str]: "a list of names, such as ['*']",
}
_NOT_FROM_BOOL = (str, str | None)  # OmegaConf would make the text "True" of it
_KINDS = _kinds_of(DumpConfig)
# What a value needs to be installed: key, value, package.
_NEEDED_PACKAGES = (("writer.compression", "zstd", "zstandard"), ("writer.mode", "ray", "ray"))
# The checks of the whole node, beyond the type of each value.
_CHECKS = (
    _out_of_range,
    _bad_filename,
    _unusable_directory,
    _no_such_shard,
    _no_field_left,
    _unknown_trainer_field,
    _missing_package,
)
_CHOICES = _choices_of(OmegaConf.structured(DumpConfig))
