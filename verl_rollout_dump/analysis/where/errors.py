"""The error of an expression that cannot be read."""

from __future__ import annotations


class WhereError(ValueError):
    """An expression is invalid. The message shows it with `^` below the position of the error."""

    def __init__(self, text: str, position: int, message: str) -> None:
        super().__init__(f"--where: {message}\n  {text}\n  {' ' * position}^")
        self.position = position
