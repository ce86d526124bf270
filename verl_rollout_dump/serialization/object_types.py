"""Objects with fields: dataclasses, attrs, pydantic, OmegaConf, TensorDict and its kin, images."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Any

from verl_rollout_dump.serialization import markers, outcomes
from verl_rollout_dump.serialization.rule import Context, Node
from verl_rollout_dump.serialization.type_names import type_name
from verl_rollout_dump.serialization.values import JsonValue


def dataclass(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a dataclass as an object of its fields."""
    return context.pairs(_set_fields(context, value, [field.name for field in fields(value)], node), node, depth)


def attrs(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return an attrs object as an object of its attributes."""
    names = [field.name for field in value.__attrs_attrs__]
    return context.pairs(_set_fields(context, value, names, node), node, depth)


def _set_fields(context: Context, value: Any, names: list[str], node: Node) -> list[tuple[str, Any]]:
    """Return the fields of an object by name; one that was never set is null, and counted."""
    pairs = []
    for name in names:
        try:
            pairs.append((name, getattr(value, name)))
        except AttributeError:
            context.note(outcomes.UNSET_FIELD, type_name(type(value)), node)
            pairs.append((name, None))
    return pairs


def pydantic_model(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a model as its own `model_dump` gives it: excluded fields stay out, secrets stay masked.

    `serialize_as_any` keeps the fields of a subclass where a field is declared as its base class
    (huggingface/transformers#46680).
    """
    is_current = hasattr(value, "model_dump")
    dump = value.model_dump(warnings=False, serialize_as_any=True) if is_current else value.dict()
    if type(dump) is dict:
        return context.pairs(dump.items(), node, depth)
    return context.value(dump, node, depth - 1)


def secret(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return the mask of a secret, whatever it holds."""
    return "**********"


def omegaconf_dict(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a DictConfig with its interpolations resolved; one that cannot be resolved becomes a marker."""
    if value._is_none():
        return None
    return context.pairs([(key, _resolved(context, value, key, node)) for key in value], node, depth)


def omegaconf_list(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a ListConfig with its interpolations resolved."""
    if value._is_none():
        return None
    return context.items([_resolved(context, value, place, node) for place in range(len(value))], node, depth)


class Unresolved:
    """A value of OmegaConf that is missing or cannot be resolved."""

    def __init__(self, reason: str, text: str) -> None:
        self.reason = reason
        self.text = text


def _resolved(context: Context, config: Any, key: Any, node: Node) -> Any:
    """Return a value of a config, or the reason why it has none."""
    omegaconf = sys.modules["omegaconf"]
    if omegaconf.OmegaConf.is_missing(config, key):
        return Unresolved("a mandatory value that is missing", "???")
    try:
        return config[key]
    except omegaconf.errors.OmegaConfBaseException:  # becomes a marker, which is counted
        return Unresolved("an interpolation that cannot be resolved", str(config._get_node(key)._value()))


def unresolved(context: Context, value: Unresolved, node: Node, depth: int) -> JsonValue:
    """Return the marker of a missing or unresolved value of OmegaConf."""
    return markers.marker("omegaconf", value.reason, {"text": context.text(value.text, "str", node)})


def tensordict(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a TensorDict as an object of its columns."""
    return context.pairs([(key, value.get(key)) for key in value.keys()], node, depth)  # noqa: SIM118


def lazy_stack(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a lazy stack as the list of its members, which may differ in shape."""
    return context.items(list(value.tensordicts), node, depth)


def non_tensor_data(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return what a NonTensorData holds."""
    return context.value(value.data, node, depth)


def non_tensor_stack(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return what a NonTensorStack holds, as a list."""
    return context.items(list(value.tolist()), node, depth)


def tensorclass(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return a tensorclass as an object of its fields."""
    return context.pairs(list(value.to_dict().items()), node, depth)


def batch_extent(value: Any) -> dict[str, JsonValue]:
    """Return the batch size of a TensorDict or of its kin."""
    return {"shape": [int(size) for size in value.batch_size]}


def image(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return the marker of an image, with what is known of it."""
    facts: dict[str, JsonValue] = {"size": [int(side) for side in value.size], "mode": str(value.mode)}
    return markers.marker(type_name(type(value)), "an image", facts)


def unknown_marker(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return the marker of a value without a rule."""
    return markers.marker(type_name(type(value)), "no rule for this type", {})


def unknown_text(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Return the text of a value without a rule."""
    return context.stringified(str, value, type_name(type(value)), node)


def unknown_error(context: Context, value: Any, node: Node, depth: int) -> JsonValue:
    """Raise `ConversionError`: the config forbids values without a rule."""
    raise context.error(node, type_name(type(value)), "no rule for this type", outcomes.UNKNOWN_TEXT.instead)
