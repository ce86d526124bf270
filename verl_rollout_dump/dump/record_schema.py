"""The JSON Schema (2020-12) of a record, for a given config.

The schema states what a config promises: the trainer's fields and their types, which of them every record has, whether
others may appear, and the markers that stand for values that could not be written. Every line of a dump validates
against the schema of its config, so a tool that reads dumps can be tested against it.
"""

from __future__ import annotations

from typing import Any

from verl_rollout_dump.batch.outcomes import OUTCOMES
from verl_rollout_dump.config import DumpConfig
from verl_rollout_dump.config.schema import NonFinite
from verl_rollout_dump.dump.fields import CORE, TOKENS
from verl_rollout_dump.dump.whitelist import IDENTITY, OUTCOME, is_glob, matches_any, whitelisted

_Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


def _marker_schema(key: str, description: str, content: _Schema) -> _Schema:
    """Return the schema of an object with one reserved key."""
    return {
        "description": description,
        "type": "object",
        "properties": {key: content},
        "required": [key],
        "additionalProperties": False,
    }


_MARKERS: dict[str, _Schema] = {
    "bytes": _marker_schema("$bytes", "Bytes, in base64.", {"type": "string", "pattern": _BASE64}),
    "int": _marker_schema(
        "$int", "An integer beyond the range of a double.", {"type": "string", "pattern": "^-?0x[0-9a-f]+$"}
    ),
    "complex": _marker_schema(
        "$complex",
        "A complex number: real and imaginary part.",
        {"type": "array", "items": {"type": ["number", "null", "string"]}, "minItems": 2, "maxItems": 2},
    ),
    "marker": _marker_schema(
        "$marker",
        "What could not be written: its type, why, and what is known of it.",
        {
            "type": "object",
            "properties": {"type": {"type": "string"}, "reason": {"type": "string"}},
            "required": ["type", "reason"],
        },
    ),
}
_RESERVED = "^[$](" + "|".join(_MARKERS) + ")$"
_VALUE: _Schema = {
    "description": "Whatever a reward function returned, as JSON; a marker where JSON has no form for it.",
    "anyOf": [
        {"type": ["null", "boolean", "number", "string"]},
        {"type": "array", "items": {"$ref": "#/$defs/value"}},
        *({"$ref": f"#/$defs/{name}"} for name in _MARKERS),
        {
            "type": "object",
            "additionalProperties": {"$ref": "#/$defs/value"},
            # an object of one reserved key is a marker, and must look like one
            "not": {"minProperties": 1, "maxProperties": 1, "propertyNames": {"pattern": _RESERVED}},
        },
    ],
}


def record_schema(config: DumpConfig) -> _Schema:
    """Return the schema of every record that a dump with this config writes."""
    fields = config.fields
    known = {name: schema for name, schema in _field_schemas(config).items() if _is_written(name, config)}
    literal = [name for name in fields.include if name not in known and not is_glob(name)]
    chosen = [name for name in literal if not matches_any(name, fields.exclude)]
    properties = known | {name: {"$ref": "#/$defs/value"} for name in chosen}
    optional = {*IDENTITY, OUTCOME, *TOKENS}
    schema: _Schema = {
        "$schema": _DIALECT,
        "title": "A rollout",
        "description": f"One line of a rollout dump, strategy {config.serialization.strategy.name}.",
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": {"$ref": "#/$defs/value"} if any(map(is_glob, fields.include)) else False,
        "$defs": {"value": _VALUE, **_MARKERS},
    }
    return schema


def _field_schemas(config: DumpConfig) -> dict[str, _Schema]:
    """Return the schemas of the fields that have a type of their own, in the order of the records."""
    is_cut = config.serialization.max_chars is not None
    text = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/marker"}]} if is_cut else {"type": "string"}
    number = {"type": ["number", "null", *(["string"] if config.serialization.non_finite is NonFinite.string else [])]}
    value = {"$ref": "#/$defs/value"}
    ids = {"type": "array", "items": {"type": "integer"}}
    log_probs = {"anyOf": [{"type": "array", "items": number}, value]}
    schemas: dict[str, _Schema] = dict(zip(CORE, (text, text, value, number, {"type": "integer"}), strict=True))
    schemas |= dict.fromkeys(IDENTITY, value)
    schemas[OUTCOME] = {
        "description": "What the trainer did with the rollout.",
        "anyOf": [{"enum": [*OUTCOMES]}, value],
    }
    if config.fields.tokens:
        schemas |= dict(zip(TOKENS, (ids, ids, log_probs), strict=True))
    return schemas


def _is_written(name: str, config: DumpConfig) -> bool:
    """Whether the whitelist lets a field through."""
    return name in whitelisted(config.fields.include, [name]) and not matches_any(name, config.fields.exclude)
