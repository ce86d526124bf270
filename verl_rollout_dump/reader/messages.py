"""Chat messages as text: the one rendering that all commands show.

A message has a `role`, and any of `content` (a text, null, or a list of parts), reasoning, and tool calls. Reasoning
and tool calls are shown as such, parts that are not text by their type: `[image_url]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

_REASONING = ("reasoning_content", "reasoning", "thinking")
_MARKS = frozenset(("role", "content"))


def is_messages(value: Any) -> bool:
    """Return whether a value is a non-empty list of chat messages."""
    return isinstance(value, list) and bool(value) and all(_is_message(item) for item in value)


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and not _MARKS.isdisjoint(value)


def messages_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return messages as text: of one message its body, of several each body below its role."""
    if len(messages) == 1:
        return _message_body(messages[0])
    return "\n".join(f"{message.get('role') or ''}\n{_message_body(message)}" for message in messages)


def _message_body(message: Mapping[str, Any]) -> str:
    """Return reasoning, content and tool calls of a message, each on lines of its own; "" if it has none."""
    return "\n".join(_pieces(message))


def _pieces(message: Mapping[str, Any]) -> Iterator[str]:
    for name in _REASONING:
        if message.get(name):
            yield f"<think>{_content_text(message[name])}</think>"
    content = _content_text(message.get("content"))
    if content:
        yield content
    for call in message.get("tool_calls") or ():
        yield f"[tool call] {_call_text(call)}"


def _content_text(content: Any) -> str:
    """Return the content of a message as text: a text itself, the parts of a list joined, "" for null."""
    if content is None:
        return ""
    if isinstance(content, list):
        return "".join(_part_text(part) for part in content)
    return content if isinstance(content, str) else orjson.dumps(content, default=str).decode()


def _part_text(part: Any) -> str:
    if isinstance(part, Mapping):
        text = part.get("text")
        return text if isinstance(text, str) else f"[{part.get('type') or 'part'}]"
    return _content_text(part)


def _call_text(call: Any) -> str:
    function = call.get("function", call) if isinstance(call, Mapping) else call
    if not isinstance(function, Mapping):
        return _content_text(function)
    return f"{function.get('name') or ''}({_content_text(function.get('arguments'))})"
