"""The records of the whole dump that hold a text. They are found step by step, while the user already moves on."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

Place = tuple[int, int]  # step, index


class SearchHits:
    """The places of the records that hold `needle`, in the order of the dump.

    `origin` is where the search began, until a hit has been shown.
    """

    def __init__(self, needle: str, origin: Place | None) -> None:
        self.needle = needle
        self.origin = origin
        self.is_complete = False
        self._places: list[Place] = []

    def add(self, step: int, indexes: Iterable[int]) -> None:
        """Add the hits of a step."""
        self._places = sorted([*self._places, *((step, index) for index in indexes)])

    def first(self) -> Place | None:
        """Return the hit to show first: the next one from the origin on, and around the end only when all are known."""
        if self.origin is None or not self._places:
            return None
        number = bisect_left(self._places, self.origin)
        if number == len(self._places):
            return self._places[0] if self.is_complete else None
        return self._places[number]

    def next(self, place: Place, direction: int) -> Place | None:
        """Return the next (1) or previous (-1) hit from a place, around the end; None if there are none."""
        if not self._places:
            return None
        if direction > 0:
            return self._places[bisect_right(self._places, place) % len(self._places)]
        return self._places[bisect_left(self._places, place) - 1]

    def told(self, place: Place) -> str:
        """Return which hit a place is: "3 of 17"; "- of 17" if it is none, "3 of 17…" while more are looked for."""
        number = bisect_left(self._places, place)
        is_hit = self._places[number : number + 1] == [place]
        return f"{number + 1 if is_hit else '-'} of {len(self._places)}{'' if self.is_complete else '…'}"


def steps_from(steps: Sequence[int], step: int) -> list[int]:
    """Return all steps from one on, around the end."""
    start = bisect_left(steps, step)
    return [*steps[start:], *steps[:start]]
