"""Split an expression into tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from verl_rollout_dump.analysis.where.errors import WhereError

_WORDS = {"and", "or", "not", "in", "contains", "startswith", "matches", "len", "true", "false", "null"}
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<quoted>`[^`]+`(?:\.(?:`[^`]+`|\w+))*)
    | (?P<name>[^\W\d]\w*(?:\.(?:`[^`]+`|\w+))*)
    | (?P<sign>==|!=|<=|>=|<|>|\(|\)|\[|\]|,|=)
    )""",
    re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_PART = re.compile(r"`[^`]+`|[^.`]+")


class Token(NamedTuple):
    """A token. `kind` is number, text, field, word, sign or end; `position` counts characters from 0."""

    kind: str
    text: str
    position: int


def tokens_of(text: str) -> Iterator[Token]:
    """Yield the tokens of an expression, the last one of kind `end`. Raises `WhereError`."""
    position = 0
    while rest := text[position:].lstrip():
        start = len(text) - len(rest)
        match = _TOKEN.match(text, position)
        if match is None:
            raise WhereError(text, start, _unknown_token(rest))
        kind = str(match.lastgroup)
        yield _token_of(kind, match[kind], start)
        position = match.end()
    yield Token("end", "", len(text))


def _token_of(kind: str, text: str, position: int) -> Token:
    """Return a token; reserved names are words, all others fields."""
    if kind == "name" and text.lower() in _WORDS:
        return Token("word", text.lower(), position)
    if kind in ("name", "quoted"):
        return Token("field", text, position)
    return Token(kind, text, position)


def _unknown_token(rest: str) -> str:
    """Return the error message for text that starts no token."""
    if rest[0] in "\"'`":
        return f"the closing {rest[0]} is missing"
    return f"unexpected {rest[0]!r}. Put a name with special characters in `backticks`"


def unquoted(text: str) -> str:
    """Return the content of a quoted text."""
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])


def regular_expression(text: str) -> str:
    """Return the content of a quoted regular expression: its backslashes stay, except before the quote."""
    return text[1:-1].replace(f"\\{text[0]}", text[0])


def path_of(text: str) -> tuple[str, ...]:
    """Return the parts of a dotted name."""
    return tuple(part.strip("`") for part in _PART.findall(text))
