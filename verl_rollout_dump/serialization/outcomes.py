"""Outcomes that do not depend on a value's type, each counted like a rule."""

from __future__ import annotations

from verl_rollout_dump.serialization.rule import Rule

_CONFIG = "rollout_dump.serialization"

NON_FINITE_NULL = Rule(
    "non_finite_null",
    "null",
    "[float('nan'), float('inf')]",
    instead=f"return finite numbers, or None on purpose; {_CONFIG}.non_finite=string keeps NaN and Infinity as text",
)
NON_FINITE_STRING = Rule(
    "non_finite_string",
    '"NaN", "Infinity" or "-Infinity"',
    "[float('nan'), float('inf')]",
    instead="return finite numbers, or None on purpose, to keep the column numeric",
)
WIDE_INTEGER = Rule("wide_integer", "all digits (a reader with 64-bit integers takes it for a float)", "2**64")
HUGE_INTEGER = Rule(
    "huge_integer",
    "`$int` marker: hexadecimal, decoded back (strict readers refuse a number beyond the range of a double)",
    "2**1024 + 1",
)
WIDE_FLOAT = Rule("wide_float", "all digits of an extended-precision number", "np.longdouble(1) / 3")
OUT_OF_RANGE = Rule(
    "out_of_range",
    "`$marker` with the digits as text",
    "np.longdouble('1e400')",
    instead="return a number within the range of a double",
)
SURROGATE = Rule(
    "surrogate_repaired",
    "U+FFFD for a lone surrogate, the real character for a pair in two halves",
    r"['ok \ud83d', '\ud83d\ude00']",
    instead="return text that can be encoded as UTF-8",
)
CIRCULAR = Rule(
    "circular",
    'the text "<circular>" where a value holds itself',
    "circular_dict()",
    instead="return a value without references back to its parents",
)
TOO_DEEP = Rule(
    "too_deep",
    "`$marker` with the length or the shape",
    "nested_lists(65)",
    instead=f"return a flatter value, or raise {_CONFIG}.max_depth",
)
TOO_LONG = Rule(
    "too_long",
    "`$marker` with the true length and the first `max_chars` characters",
    "'abcdef'",
    instead=f"return shorter text, or raise {_CONFIG}.max_chars",
)
TOO_MANY = Rule(
    "too_many_elements",
    "`$marker` with the true length or shape",
    "[1, 2, 3, 4, 5]",
    instead=f"return fewer elements, or raise {_CONFIG}.max_elements",
)
KEY_TEXT = Rule(
    "key_to_text",
    "a key that is no text, by the rules for values",
    "{1: 'a', np.int64(2): 'b', (1, 2): 'c', 0.5: 'd', None: 'e'}",
    instead="use text as keys: JSON has no others",
)
KEY_COLLISION = Rule(
    "key_collision",
    "the later of two keys with one text gets a suffix",
    "{1: 'a', '1': 'b'}",
    instead="use keys that differ as text",
)
RESERVED_KEY = Rule(
    "reserved_key",
    "a one-key object that looks like a marker gets one `$` more, decoded back",
    "{'$bytes': 'mine'}",
    instead="use a key without `$` in front",
)
NOT_WRITTEN = Rule(
    "not_written",
    "`$marker` with what is known of it",
    "range(10**9)",
    instead="return its content, if it is meant to be read: a meta tensor has none, and a very long range, or a very "
    "large sparse tensor, would be written out in full",
)
UNSET_FIELD = Rule("unset_field", "null for a field that was never set", "UnsetPoint(1)")
FAILED = Rule(
    "failed",
    "`$marker` with the type of the exception",
    "BrokenList()",
    instead="return plain Python values; this one raises when it is looked at",
)
UNKNOWN_MARKER = Rule(
    "unknown_marker",
    "`$marker` with the type",
    "Opaque()",
    instead=f"return numbers, text, lists and dicts; {_CONFIG}.unknown=str writes its text",
)
UNKNOWN_TEXT = Rule(
    "unknown_text",
    "`str()`, without memory addresses",
    "Opaque()",
    instead="return numbers, text, lists and dicts",
)
STRINGIFIED = Rule(
    "stringified",
    "`str()`, in full, without memory addresses",
    "np.int64(3)",
    instead=f"return plain Python values, or configure {_CONFIG}=early_convert, which keeps types",
)

# All of them, for the documentation.
OUTCOMES: tuple[Rule, ...] = (
    NON_FINITE_NULL,
    NON_FINITE_STRING,
    WIDE_INTEGER,
    HUGE_INTEGER,
    WIDE_FLOAT,
    OUT_OF_RANGE,
    SURROGATE,
    CIRCULAR,
    TOO_DEEP,
    TOO_LONG,
    TOO_MANY,
    KEY_TEXT,
    KEY_COLLISION,
    RESERVED_KEY,
    NOT_WRITTEN,
    UNSET_FIELD,
    FAILED,
    UNKNOWN_MARKER,
    UNKNOWN_TEXT,
    STRINGIFIED,
)
