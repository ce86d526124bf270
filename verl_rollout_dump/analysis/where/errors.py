"""What is wrong with an expression, with a mark under the place."""

from __future__ import annotations


class WhereError(ValueError):
    """An expression cannot be read. The message shows it, with `^` under the place."""

    def __init__(self, text: str, position: int, message: str) -> None:
        super().__init__(f"--where: {message}\n  {text}\n  {' ' * position}^")
        self.position = position
