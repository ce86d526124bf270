"""Parse an expression into a condition, by recursive descent.

disjunction := conjunction ("or" conjunction)*
conjunction := negation ("and" negation)*
negation    := "not" negation | comparison
comparison  := term (sign term | "matches" text)?
term        := number | text | true | false | null | field | "len" "(" term ")" | "[" term, .. "]" | "(" disjunction ")"
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from verl_rollout_dump.analysis.where.errors import WhereError
from verl_rollout_dump.analysis.where.tokens import Token, path_of, regular_expression, tokens_of, unquoted
from verl_rollout_dump.analysis.where.values import COMPARISONS, CONSTANTS, Record, Term, field, length

_DEEPEST = 100  # parentheses and `not` within each other


def parse_where(text: str) -> Condition:
    """Return the condition of an expression. Raises `WhereError`."""
    reader = _ExpressionReader(text)
    term = reader.disjunction()
    reader.expect_end()
    return Condition(text, term, tuple(reader.fields))


@dataclass(frozen=True)
class Condition:
    """A condition on records, called with one. `fields` are the paths that it names, with positions in the text."""

    text: str
    term: Term
    fields: tuple[tuple[tuple[str, ...], int], ...] = ()

    def __call__(self, record: Record) -> bool:
        """Return whether the condition holds for a record."""
        return bool(self.term(record))


class _ExpressionReader:
    """Reads one expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(tokens_of(text))
        self._next = 0
        self._depth = 0
        self.fields: list[tuple[tuple[str, ...], int]] = []

    def disjunction(self) -> Term:
        """Read conditions that are joined by `or`."""
        terms = self._joined("or", self._conjunction)
        return terms[0] if len(terms) == 1 else lambda record: any(term(record) for term in terms)

    def expect_end(self) -> None:
        """Raise `WhereError` if tokens are left over."""
        token = self._token
        if token.kind != "end":
            raise WhereError(self._text, token.position, f"unexpected {token.text!r}; is an `and` missing?")

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _joined(self, word: str, part: Callable[[], Term]) -> list[Term]:
        terms = [part()]
        while self._accept("word", word):
            terms.append(part())
        return terms

    def _conjunction(self) -> Term:
        terms = self._joined("and", self._negation)
        return terms[0] if len(terms) == 1 else lambda record: all(term(record) for term in terms)

    def _negation(self) -> Term:
        if not self._accept("word", "not"):
            return self._comparison()
        self._go_deeper()
        term = self._negation()
        self._depth -= 1
        return lambda record: not term(record)

    def _comparison(self) -> Term:
        left = self._term()
        if self._accept("word", "matches"):
            return self._match(left)
        compare = COMPARISONS.get(self._token.text) if self._token.kind in ("sign", "word") else None
        if compare is None:
            return left
        self._next += 1
        right = self._term()
        return lambda record: compare(left(record), right(record))

    def _match(self, left: Term) -> Term:
        pattern = self._token
        if pattern.kind != "text":
            raise WhereError(self._text, pattern.position, "expected a regular expression in quotes after matches")
        try:
            search = re.compile(regular_expression(pattern.text)).search
        except re.error as error:
            raise WhereError(self._text, pattern.position, f"not a regular expression: {error}") from error
        self._next += 1
        return lambda record: isinstance(value := left(record), str) and search(value) is not None

    def _term(self) -> Term:
        token = self._token
        read = _TERMS.get(token.kind) or _TERMS.get(token.text)
        if read is None and token.kind == "word" and token.text in CONSTANTS:
            read = _ExpressionReader._constant
        if read is None and (token.kind, token.text) == ("word", "matches"):
            read = _ExpressionReader._field  # as an operator it stands behind a term
        if read is None:
            found = repr(token.text) if token.text else "the end"
            raise WhereError(self._text, token.position, f"expected a field, a number or a text, found {found}")
        self._next += 1
        return read(self, token)

    def _constant(self, token: Token) -> Term:
        value = CONSTANTS[token.text]
        return lambda record: value

    def _number(self, token: Token) -> Term:
        value: Any = float(token.text) if any(sign in token.text for sign in ".eE") else int(token.text)
        return lambda record: value

    def _string(self, token: Token) -> Term:
        value = unquoted(token.text)
        return lambda record: value

    def _field(self, token: Token) -> Term:
        path = path_of(token.text)
        self.fields.append((path, token.position))
        return field(path)

    def _length(self, token: Token) -> Term:
        self._expect("(")
        term = self._term()
        self._expect(")")
        return length(term)

    def _list(self, token: Token) -> Term:
        terms: list[Term] = []
        while not self._accept("sign", "]"):
            if terms:
                self._expect(",")
            terms.append(self._term())
        return lambda record: [term(record) for term in terms]

    def _parenthesis(self, token: Token) -> Term:
        self._go_deeper()
        term = self.disjunction()
        self._expect(")")
        self._depth -= 1
        return term

    def _go_deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise WhereError(self._text, self._token.position, f"nested more than {_DEEPEST} deep")

    def _accept(self, kind: str, text: str) -> bool:
        if (self._token.kind, self._token.text) != (kind, text):
            return False
        self._next += 1
        return True

    def _expect(self, sign: str) -> None:
        if not self._accept("sign", sign):
            found = repr(self._token.text) if self._token.text else "the end"
            raise WhereError(self._text, self._token.position, f"expected {sign!r}, found {found}")


_TERMS: dict[str, Callable[[_ExpressionReader, Token], Term]] = {
    "number": _ExpressionReader._number,
    "text": _ExpressionReader._string,
    "field": _ExpressionReader._field,
    "len": _ExpressionReader._length,
    "[": _ExpressionReader._list,
    "(": _ExpressionReader._parenthesis,
}
