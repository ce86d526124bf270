"""What all tests of the conversion check: the line is strict JSON, on one line, and says what is expected."""

from __future__ import annotations

import json
from typing import Any

import orjson

from verl_rollout_dump.config.schema import SerializationConfig, Strategy
from verl_rollout_dump.serialization import ConversionReport, Serializer, encode_record

EARLY = Serializer(SerializationConfig())
TEXT = Serializer(SerializationConfig(strategy=Strategy.str_fallback))


def refuse(constant: str) -> Any:
    raise AssertionError(f"{constant} is not JSON")


def read_strictly(line: bytes) -> Any:
    """Return what a line holds; orjson and json agree that it is JSON, and that it is one line."""
    text = line.decode("utf-8")
    assert len(text.splitlines()) == 1
    orjson.loads(line)
    return json.loads(text, parse_constant=refuse)


def line_of(serializer: Serializer, value: Any) -> tuple[bytes, ConversionReport]:
    """Return the line of a record with one value, and the report of its conversion."""
    report = ConversionReport()
    return encode_record({"v": serializer.convert_value("v", value, report)}), report


def written(serializer: Serializer, value: Any) -> Any:
    """Return what is read back of a value."""
    return read_strictly(line_of(serializer, value)[0])["v"]


def rules_of(report: ConversionReport) -> set[str]:
    """Return the names of the rules in a report."""
    return {str(row["rule"]) for row in report.as_list()}


def same(value: Any, expected: Any) -> bool:
    """Say whether two JSON values are equal, types included: 1, 1.0 and true are not the same."""
    return json.dumps(value) == json.dumps(expected)


def marker(type_name: str, reason: str, **facts: Any) -> dict[str, Any]:
    return {"$marker": {"type": type_name, "reason": reason, **facts}}
