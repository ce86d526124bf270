"""Objects with fields: dataclasses, attrs, pydantic, OmegaConf, TensorDict and its kin, images."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from verl_rollout_dump.serialization import markers, rule
from verl_rollout_dump.serialization.report import Node
from verl_rollout_dump.serialization.values import JsonValue, type_name

if TYPE_CHECKING:
    from verl_rollout_dump.serialization.conversion import Walk


def dataclass(walk: Walk, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a dataclass as an object of its fields."""
    return walk.pairs([(field.name, getattr(value, field.name)) for field in fields(value)], node, depth)


def attrs(walk: Walk, value: Any, node: Node, depth: int) -> JsonValue:
    """Return an attrs object as an object of its attributes."""
    return walk.pairs([(field.name, getattr(value, field.name)) for field in value.__attrs_attrs__], node, depth)


def pydantic_model(walk: Walk, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a model as its own `model_dump` gives it: excluded fields stay out, secrets stay masked."""
    dump = value.model_dump(warnings=False) if hasattr(value, "model_dump") else value.dict()
    if type(dump) is dict:
        return walk.pairs(dump.items(), node, depth)
    return walk.value(dump, node, depth - 1)


def secret(walk: Walk, value: Any, node: Node, depth: int) -> JsonValue:
    """Return the mask of a secret, whatever it holds."""
    return "**********"


def omegaconf_dict(walk: Walk, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a DictConfig with its interpolations resolved; one that cannot be is a marker, the rest survives."""
    if value._is_none():
        return None
    return walk.pairs([(key, resolved(walk, value, key, node)) for key in value], node, depth)


def omegaconf_list(walk: Walk, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a ListConfig with its interpolations resolved."""
    if value._is_none():
        return None
    return walk.items([resolved(walk, value, place, node) for place in range(len(value))], node, depth)


class Unresolved:
    """Stands for a value of OmegaConf that has none."""

    def __init__(self, reason: str, text: str) -> None:
        self.reason = reason
        self.text = text


def resolved(walk: Walk, config: Any, key: Any, node: Node) -> Any:
    """Return a value of a config, or what says why there is none."""
    omegaconf = sys.modules["omegaconf"]
    if omegaconf.OmegaConf.is_missing(config, key):
        return Unresolved("a mandatory value that is missing", "???")
    try:
        return config[key]
    except omegaconf.errors.OmegaConfBaseException:  # becomes a marker, which is counted
        return Unresolved("an interpolation that cannot be resolved", str(config._get_node(key)._value()))


def unresolved(walk: Walk, value: Unresolved, node: Node, depth: int) -> JsonValue:
    """Return the marker of a value of OmegaConf that has none."""
    return markers.marker("omegaconf", value.reason, {"text": walk.text(value.text, "str", node)})


def tensordict(walk: Walk, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a TensorDict as an object of its columns."""
    return walk.pairs([(key, value.get(key)) for key in value.keys()], node, depth)  # noqa: SIM118


def lazy_stack(walk: Walk, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a lazy stack as the list of its members, which may differ in shape."""
    return walk.items(list(value.tensordicts), node, depth)


def non_tensor_data(walk: Walk, value: Any, node: Node, depth: int) -> JsonValue:
    """Return what a NonTensorData holds."""
    return walk.value(value.data, node, depth)


def non_tensor_stack(walk: Walk, value: Any, node: Node, depth: int) -> JsonValue:
    """Return what a NonTensorStack holds, as a list."""
    return walk.items(list(value.tolist()), node, depth)


def tensorclass(walk: Walk, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a tensorclass as an object of its fields."""
    return walk.pairs(list(value.to_dict().items()), node, depth)


def batch_extent(value: Any) -> dict[str, JsonValue]:
    """Return the batch size of a TensorDict or of its kin."""
    return {"shape": [int(size) for size in value.batch_size]}


def image(walk: Walk, value: Any, node: Node, depth: int) -> JsonValue:
    """Return the marker of an image, with what is known of it."""
    facts: dict[str, JsonValue] = {"size": [int(side) for side in value.size], "mode": str(value.mode)}
    return markers.marker(type_name(type(value)), "an image", facts)


def unknown_marker(walk: Walk, value: Any, node: Node, depth: int) -> JsonValue:
    """Return the marker of a value that no rule knows."""
    return markers.marker(type_name(type(value)), "no rule for this type", {})


def unknown_text(walk: Walk, value: Any, node: Node, depth: int) -> JsonValue:
    """Return the text of a value that no rule knows."""
    return walk.stringified(str, value, type_name(type(value)), node)


def unknown_error(walk: Walk, value: Any, node: Node, depth: int) -> JsonValue:
    """Raise: the config wants no value that no rule knows."""
    raise walk.error(node, type_name(type(value)), "no rule for this type", rule.UNKNOWN_TEXT.instead)
