"""What a rule is, and the rules that are no matter of type: what may befall a value of any type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from verl_rollout_dump.serialization.values import JsonValue

if TYPE_CHECKING:
    from verl_rollout_dump.serialization.conversion import Walk
    from verl_rollout_dump.serialization.report import Node

# (walk, value, node of the report, depth) -> JSON-ready value. The depth is that of the containers around the
# value, and for a rule that nests, the value itself among them.
Converter: TypeAlias = "Callable[[Walk, Any, Node, int], JsonValue]"
# value -> what a marker may say of it: {"length": 3} or {"shape": [2, 3], "dtype": "float32"}.
Extent: TypeAlias = Callable[[Any], "dict[str, JsonValue]"]


@dataclass(frozen=True, eq=False)
class Rule:
    """One row of the table of conversions."""

    # The name under which the report counts it.
    name: str
    # What is written, for the documentation and the warnings.
    output: str
    # A Python expression; the documentation shows what comes of it, and a test computes it again.
    example: str
    # The types it is for, as `package.Name`, subclasses included; none: it may befall any value.
    types: tuple[str, ...] = ()
    convert: Converter | None = None
    # What to return or to configure instead. A rule that has such advice changes the value, and is warned about.
    instead: str = ""
    # Whether the values are containers: they count as a level, and may hold themselves.
    nests: bool = False
    # Whether it is counted; what JSON has itself is not.
    counted: bool = True
    # A function of C that does the same, for speed.
    leaf: Callable[[Any], JsonValue] | None = None
    extent: Extent | None = None
    # The whole text of a value under str_fallback, where str() would leave something out or order it by chance.
    text: Callable[[Any], str] = str

    @property
    def lossy(self) -> bool:
        """Whether the value that is read back is not what the reward function returned."""
        return bool(self.instead)


CONFIG = "rollout_dump.serialization"

NON_FINITE_NULL = Rule(
    "non_finite_null",
    "null",
    "[float('nan'), float('inf')]",
    instead=f"return finite numbers, or None on purpose; {CONFIG}.non_finite=string keeps NaN and Infinity as text",
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
    instead=f"return a flatter value, or raise {CONFIG}.max_depth",
)
TOO_LONG = Rule(
    "too_long",
    "`$marker` with the true length and the first `max_chars` characters",
    "'abcdef'",
    instead=f"return shorter text, or raise {CONFIG}.max_chars",
)
TOO_MANY = Rule(
    "too_many_elements",
    "`$marker` with the true length or shape",
    "[1, 2, 3, 4, 5]",
    instead=f"return fewer elements, or raise {CONFIG}.max_elements",
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
    instead=f"return numbers, text, lists and dicts; {CONFIG}.unknown=str writes its text",
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
    instead=f"return plain Python values, or configure {CONFIG}=early_convert, which keeps types",
)

# Whatever may befall a value of any type, beside the rule of its type.
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
    FAILED,
    UNKNOWN_MARKER,
    UNKNOWN_TEXT,
    STRINGIFIED,
)
