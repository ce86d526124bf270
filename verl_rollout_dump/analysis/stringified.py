"""Recognise values that `json.dumps(default=str)` turned into text.

    "3", "0.5", "nan"            np.int64(3), np.float32(0.5): text_number
    "True"                       np.bool_: text_boolean
    "tensor([1, 2])", "[1 2]"    a tensor, an array: text_tensor; with "..." in it (values are lost): text_elided

`text_kind` names what a text looks like; `READ_BACK` returns the value. Prompts, responses and uids are never tested;
a ground truth or an extracted answer may be the text "4".
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

_INTEGER = re.compile(r"0|-?[1-9]\d{0,18}")
_FLOAT = re.compile(r"-?\d+\.\d*([eE][-+]?\d+)?|-?\d+[eE][-+]?\d+|-?inf|nan")
_TENSOR = re.compile(r"(?:tensor|array)\((?P<body>.*?)(?P<facts>(,\s*\w+=[^\[\]]*)*)\)", re.DOTALL)
_ARRAY_TEXT = re.compile(r"\[[-+\d.eE\s\[\]naifTruFls]*\]", re.DOTALL)
_LONGEST = 200  # characters of a text that may be a number or a boolean
TEXT_FIELDS = frozenset(("input", "output", "prompt", "completion", "response", "uid", "request_id", "question"))
# Fields whose values may be texts that look like numbers.
_ANSWERS = re.compile(r"gts|ground_truth|pred|answer|extract|label|solution|choice|content|text", re.IGNORECASE)

TEXT_NUMBER = "text_number"
TEXT_BOOLEAN = "text_boolean"
TEXT_TENSOR = "text_tensor"
TEXT_ELIDED = "text_elided"


def text_kind(text: str) -> str | None:
    """Return which kind of value a text was before `str`, or None."""
    if len(text) <= _LONGEST:
        if text in ("True", "False"):
            return TEXT_BOOLEAN
        if _INTEGER.fullmatch(text) or (_FLOAT.fullmatch(text) and _is_text_of_float(text)):
            return TEXT_NUMBER
    if text.startswith(("tensor(", "array(")) and text.endswith(")"):
        return TEXT_ELIDED if "..." in text else TEXT_TENSOR
    if text.startswith("[") and text.endswith("]") and "..." in text and _ARRAY_TEXT.fullmatch(text.replace("...", "")):
        return TEXT_ELIDED
    if text.startswith("[") and " " in text and "," not in text and _ARRAY_TEXT.fullmatch(text):
        return TEXT_TENSOR
    return None


def _is_text_of_float(text: str) -> bool:
    """Return whether `str()` makes a text of a number: of a float, or of a NumPy float16 or float32.

    "3.10" and "1e5" are no such texts: somebody wrote them so, and they stay text.
    """
    number = float(text)
    with np.errstate(over="ignore"):
        return text in (str(number), str(np.float32(number)), str(np.float16(number)))


@lru_cache(maxsize=4096)
def is_answer(path: str) -> bool:
    """Return whether a field may hold texts that look like numbers, such as the answer "4"."""
    return _ANSWERS.search(path) is not None


def _read_number(text: str) -> Any:
    """Return the number of a text; None for NaN and infinities, which JSON cannot express."""
    if _INTEGER.fullmatch(text):
        return int(text)
    number = float(text)
    return number if math.isfinite(number) else None


def _read_tensor(text: str) -> Any:
    """Return the list or number of a tensor's or array's text. Raises ValueError if the text is incomplete."""
    match = _TENSOR.fullmatch(text)
    body = match["body"] if match else re.sub(r"(?<=[\d.\]elnfs])\s+(?=[-\d.\[TFni])", ", ", text)
    try:
        return _finite(ast.literal_eval(re.sub(r"-?\b(nan|inf)\b", "None", body)))
    except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(f"{text[:60]!r} is not a complete tensor") from error


def _finite(value: Any) -> Any:
    """Return numbers and nested lists of numbers unchanged. Raises ValueError for anything else."""
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise ValueError(f"{value!r} is not a number")


# kind of text -> function from the text to the value
READ_BACK: dict[str, Callable[[str], Any]] = {
    TEXT_NUMBER: _read_number,
    TEXT_BOOLEAN: lambda text: text == "True",
    TEXT_TENSOR: _read_tensor,
}
