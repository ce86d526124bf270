"""Converts whole arrays of numbers, of numpy and of torch.

A float is written as the shortest decimal that reads back to the same value of its own dtype: float32 by orjson,
which prints them so; float16 by numpy, once per bit pattern.
`record_of` says which record a number (by its place in C order) belongs to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import orjson

from verl_rollout_dump.serialization import markers, outcomes
from verl_rollout_dump.serialization.rule import Context, Node
from verl_rollout_dump.serialization.values import JsonValue

RecordOf: TypeAlias = Callable[[int], int]

NUMBER_KINDS = frozenset("biufc")


def numbers(context: Context, array: np.ndarray, node: Node, name: str, record_of: RecordOf) -> JsonValue:
    """Return an array (any shape; dtype bool, integer, float or complex) as nested lists of numbers."""
    return _BY_KIND[array.dtype.kind](context, array, node, name, record_of)


def _exact(context: Context, array: np.ndarray, node: Node, name: str, record_of: RecordOf) -> JsonValue:
    """Return bools or integers: numpy has none beyond 64 bits."""
    return array.tolist()  # type: ignore[no-any-return]


def _floats(context: Context, array: np.ndarray, node: Node, name: str, record_of: RecordOf) -> JsonValue:
    """Return floats; NaN and the infinities are replaced and counted."""
    finite = np.isfinite(array)
    shortest = _SHORTEST.get(array.dtype.itemsize)
    if shortest is None:
        return _longdoubles(context, array, node, name, record_of)
    if finite.all():
        return shortest(array)  # type: ignore[no-any-return]
    flat: list[Any] = shortest(np.where(finite, array, array.dtype.type(0)).ravel())
    _replace_non_finite(context, flat, array, ~finite, node, name, record_of)
    return nested(flat, array.shape)  # type: ignore[no-any-return]


def _replace_non_finite(
    context: Context, flat: list[Any], array: np.ndarray, where: np.ndarray, node: Node, name: str, record_of: RecordOf
) -> None:
    """Replace in `flat` the numbers of `array` that are not finite."""
    record, values = context.record, array.ravel()
    for position in np.flatnonzero(where.ravel()).tolist():
        context.record = record_of(position)
        flat[position] = context.non_finite(float(values[position]), name, node)
    context.record = record


def _doubles(array: np.ndarray) -> Any:
    """Return float64 as nested lists."""
    return array.tolist()


def _shortest_singles(array: np.ndarray) -> Any:
    """Return float32 as nested lists of the shortest doubles, as orjson prints them."""
    native = np.ascontiguousarray(array, dtype=np.float32).reshape(array.shape)
    if not native.size or not native.ndim:
        return native.tolist() if native.ndim else _shortest_singles(native.reshape(1))[0]
    return orjson.loads(orjson.dumps(native, option=orjson.OPT_SERIALIZE_NUMPY))


def _shortest_halves(array: np.ndarray) -> Any:
    """Return float16 as nested lists of the shortest doubles; each bit pattern is formatted once."""
    bits = np.ascontiguousarray(array, dtype=np.float16).view(np.uint16)
    patterns, places = np.unique(bits, return_inverse=True)
    spelled = np.array([float(str(half)) for half in patterns.view(np.float16)], dtype=np.float64)
    return spelled[places].reshape(array.shape).tolist()


# By the bytes of an item. What is wider than a double is written digit by digit.
_SHORTEST: dict[int, Callable[[np.ndarray], Any]] = {2: _shortest_halves, 4: _shortest_singles, 8: _doubles}


def _longdoubles(context: Context, array: np.ndarray, node: Node, name: str, record_of: RecordOf) -> JsonValue:
    """Return numbers of extended precision."""
    record, flat = context.record, []
    for position, number in enumerate(array.ravel()):
        context.record = record_of(position)
        flat.append(_longdouble(context, number, node, name))
    context.record = record
    return nested(flat, array.shape)  # type: ignore[no-any-return]


def _longdouble(context: Context, number: np.longdouble, node: Node, name: str) -> JsonValue:
    """Return one number of extended precision: a float if it fits, else all digits, or text if it is out of range."""
    with np.errstate(over="ignore", under="ignore"):
        double = float(number)
    if double == number or not np.isfinite(number):
        return context.number(double, name, node)
    digits = str(number)
    if np.isinf(double):
        context.note(outcomes.OUT_OF_RANGE, name, node)
        return markers.marker(name, "out of the range of a double", {"text": digits})
    context.note(outcomes.WIDE_FLOAT, name, node)
    return orjson.Fragment(digits)


def _complexes(context: Context, array: np.ndarray, node: Node, name: str, record_of: RecordOf) -> JsonValue:
    """Return complex numbers as markers of their two parts."""
    array = np.ascontiguousarray(array).reshape(array.shape)
    real: Any = numbers(context, array.real.ravel(), node, name, record_of)
    imaginary: Any = numbers(context, array.imag.ravel(), node, name, record_of)
    return nested(list(map(markers.complex_marker, real, imaginary)), array.shape)  # type: ignore[no-any-return]


def plain_numbers(array: np.ndarray) -> Any:
    """Return an array as nested lists of Python numbers, spelled as above, NaN and infinities as they are."""
    shortest = _SHORTEST.get(array.dtype.itemsize) if array.dtype.kind == "f" else None
    if shortest is None:
        return array.tolist()
    finite = np.isfinite(array)
    flat: list[Any] = shortest(np.where(finite, array, array.dtype.type(0)).ravel())
    for position in np.flatnonzero(~finite.ravel()).tolist():
        flat[position] = float(array.ravel()[position])
    return nested(flat, array.shape)


def nested(flat: list[Any], shape: tuple[int, ...]) -> Any:
    """Return the items of an array (in C order) as lists nested by its shape; the item itself if it has no axes."""
    if not shape:
        return flat[0]
    if 0 in shape:
        return np.empty(shape, dtype=np.int8).tolist()
    for size in reversed(shape[1:]):
        flat = [flat[start : start + size] for start in range(0, len(flat), size)]
    return flat


_BY_KIND: dict[str, Callable[[Context, np.ndarray, Node, str, RecordOf], JsonValue]] = {
    "b": _exact,
    "i": _exact,
    "u": _exact,
    "f": _floats,
    "c": _complexes,
}
