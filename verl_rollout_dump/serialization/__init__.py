"""Converts values of any type to strict JSON: once, completely, and with a report.

    report = ConversionReport()
    column = Serializer(SerializationConfig()).convert_column("acc", np.array([True, False]), report)
    line = encode_record({"acc": column[0]})

`table.py` is the table of rules, and `docs/conversion.md` documents it. There are two strategies: `early_convert` keeps
types (verl-project/verl#6167), and `str_fallback` writes `str()` of what JSON does not know (verl-project/verl#6062).
Neither writes invalid JSON or loses anything silently. Foreign libraries are recognised by name and never imported.
"""

from verl_rollout_dump.serialization.markers import decode_markers
from verl_rollout_dump.serialization.registration import register_rule, unregister_rule
from verl_rollout_dump.serialization.report import ConversionReport, ConversionWarning
from verl_rollout_dump.serialization.serializer import Serializer
from verl_rollout_dump.serialization.text import encode_insides, encode_record, escape_line_separators, repair_text
from verl_rollout_dump.serialization.values import ConversionError, JsonValue

__all__ = [
    "ConversionError",
    "ConversionReport",
    "ConversionWarning",
    "JsonValue",
    "Serializer",
    "decode_markers",
    "encode_insides",
    "encode_record",
    "escape_line_separators",
    "register_rule",
    "repair_text",
    "unregister_rule",
]
