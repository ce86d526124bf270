"""torch: tensors of every dtype and layout. Recognised by name, so torch is never imported here."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from verl_rollout_dump.serialization import arrays, markers, numpy_types
from verl_rollout_dump.serialization.rule import Context, Node
from verl_rollout_dump.serialization.type_names import type_name
from verl_rollout_dump.serialization.values import JsonValue

# numpy has no such floats (pytorch/pytorch#110285); each is exactly a double.
_VIA_DOUBLE = ("torch.bfloat16", "torch.float8")
# A sparse tensor is written in full up to this many elements.
_LARGEST_SPARSE = 1_000_000


def tensor(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a tensor as nested lists, one without axes as its value."""
    if value.is_meta:
        return context.not_written(value, "a meta tensor, which has no data", tensor_extent(value), node)
    if value.is_nested:
        return context.items(list(value.detach().unbind()), node, depth)
    if str(value.layout) != "torch.strided" and value.numel() > _LARGEST_SPARSE:
        reason = f"a sparse tensor of more than {_LARGEST_SPARSE} elements"
        return context.not_written(value, reason, tensor_extent(value), node)
    if depth + value.ndim - 1 > context.max_depth:
        return context.too_deep(value, node)
    array = as_numpy(value)
    return arrays.numbers(context, array, numpy_types.below(node, array.ndim), type_name(type(value)), context.here)


def as_numpy(value: Any) -> np.ndarray:
    """Return the numbers of a tensor as a numpy array; they may share memory.

    `detach().cpu()` first: `.numpy()` refuses gradients, other devices and bfloat16 (vllm-project/vllm#393).
    Raises what torch raises for dtypes that have no numbers to show (bits8, int4).
    """
    tensor = value.detach()
    if str(tensor.layout) != "torch.strided":
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    dtype = str(tensor.dtype)
    if dtype.startswith(_VIA_DOUBLE):
        tensor = tensor.float().double()
    elif dtype == "torch.complex32":
        tensor = tensor.to(sys.modules["torch"].complex64)
    return tensor.numpy()  # type: ignore[no-any-return]


def placed_elsewhere(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return the marker of a tensor that only all ranks together can read, or that has no data at all."""
    reason = "a tensor whose data is not in this process"
    return markers.marker(type_name(type(value)), reason, tensor_extent(value))


def tensor_extent(value: Any) -> dict[str, JsonValue]:
    """Return the shape and the dtype of a tensor; for a nested tensor, the number of rows."""
    if value.is_nested:
        return {"length": int(value.size(0)), "dtype": str(value.dtype)}
    return {"shape": [int(size) for size in value.shape], "dtype": str(value.dtype)}


def tensor_text(value: Any) -> str:
    """Return the whole text of a tensor: torch's own text leaves out the middle and digits."""
    if value.is_nested:
        return f"nested_tensor([{', '.join(map(tensor_text, value.detach().unbind()))}])"
    if value.is_meta:
        return str(value)
    return f"tensor({arrays.plain_numbers(as_numpy(value))})"
