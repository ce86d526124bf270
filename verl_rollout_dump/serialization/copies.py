"""Columns that are copied now and converted later on the writing thread; copying is the smaller part of the work.

A copy shares nothing that a trainer may still change. Arrays and tensors are copied; plain dicts and lists are copied
down to their atoms. Any other column can only be copied by converting it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import chain, islice
from typing import Any

import numpy as np

from verl_rollout_dump.config.schema import SerializationConfig
from verl_rollout_dump.serialization.column_shapes import SURVEYED
from verl_rollout_dump.serialization.lists import ATOMS

_CONTAINERS = SURVEYED - ATOMS


def copied(values: Any, config: SerializationConfig) -> Any:
    """Return a copy of a column that converts to the same values; None if it must be converted instead."""
    copier = _COPIERS.get(type(values))
    if copier is not None:
        return copier(values, config)
    torch = sys.modules.get("torch")
    return _copied_tensor(values) if torch is not None and type(values) is torch.Tensor else None


def _copied_list(values: list[Any] | tuple[Any, ...], config: SerializationConfig) -> list[Any] | None:
    """Return a copy of a list or tuple."""
    return _deep_copy(list(values), config.max_depth, config.max_elements)


def _deep_copy(values: list[Any], depth: int, max_elements: int | None) -> list[Any] | None:
    """Return a list with copies of all dicts and lists in it, `depth` deep; the same list if it holds only atoms.

    Returns None if it holds anything else, or if a dict has keys that are not text.
    """
    kinds = set(map(type, values))
    if kinds <= ATOMS:
        return values
    if depth < 1 or not kinds <= SURVEYED:
        return None
    dicts = values if kinds == {dict} else [value for value in values if type(value) is dict]
    lists = [value for value in values if type(value) is list] if list in kinds else []
    if not set(map(type, chain.from_iterable(dicts))) <= {str}:
        return None
    if max_elements is not None and max(map(len, (*dicts, *lists))) > max_elements:
        return None
    items = [*chain.from_iterable(map(dict.values, dicts)), *chain.from_iterable(lists)]
    copies = _deep_copy(items, depth - 1, max_elements)
    if copies is None:
        return None
    if copies is items:
        return [value.copy() if type(value) in _CONTAINERS else value for value in values]
    return _put_back(values, copies, sum(map(len, dicts)))


def _put_back(values: list[Any], items: list[Any], of_dicts: int) -> list[Any]:
    """Return a list with other items in its dicts and lists: first those of all its dicts, then those of its lists."""
    of_dict, of_list = iter(items), islice(items, of_dicts, None)
    rebuilt: dict[type[Any], Callable[[Any], Any]] = {
        dict: lambda value: dict(zip(value, of_dict)),  # noqa: B905 (takes as many as there are keys)
        list: lambda value: list(islice(of_list, len(value))),
    }
    return [rebuilt[type(value)](value) if type(value) in _CONTAINERS else value for value in values]


def _copied_array(values: np.ndarray, config: SerializationConfig) -> Any:
    """Return a copy of an array; a list for an array of objects."""
    if values.dtype.kind == "O" and values.ndim == 1:
        return _copied_list(values.tolist(), config)
    return None if values.dtype.hasobject else values.copy()


def _copied_tensor(values: Any) -> Any:
    """Return a copy of a tensor."""
    return None if values.is_nested or values.is_meta else values.detach().clone()


# By the exact type that holds the rows: a subclass may behave differently.
_COPIERS: dict[type[Any], Callable[[Any, SerializationConfig], Any]] = {
    list: _copied_list,
    tuple: _copied_list,
    np.ndarray: _copied_array,
}
