"""Short labels of prompts, by what differs between them.

The prompts of a step often share a system prompt and a chat template, so that their first 80 characters are equal.
`PromptLabels` leaves out what they share and shows the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from verl_rollout_dump.analysis.formatting import head_and_tail

_HEAD = 32  # characters; texts that begin alike are compared with each other


class _Shared:
    """The beginning and the ending that some texts share."""

    def __init__(self, text: str) -> None:
        self.beginning = self.ending = text

    def add(self, text: str) -> None:
        """Shorten the beginning and the ending to what another text shares."""
        self.beginning = self.beginning[: _shared_length(self.beginning, text)]
        self.ending = self.ending[len(self.ending) - _shared_length(self.ending[::-1], text[::-1]) :]


class PromptLabels:
    """Labels for the prompts that it is made with, and for others of their kind."""

    def __init__(self, prompts: Iterable[str]) -> None:
        distinct: defaultdict[str, list[str]] = defaultdict(list)
        for prompt in dict.fromkeys(prompts):
            distinct[prompt[:_HEAD]].append(prompt)
        self._shared: dict[str, _Shared] = {}
        for head, texts in distinct.items():
            if len(texts) > 1:
                shared = self._shared[head] = _Shared(texts[0])
                for text in texts[1:]:
                    shared.add(text)

    def label(self, prompt: str, longest: int) -> str:
        """Return a prompt on one line of at most `longest` characters, without what all prompts share if it is cut."""
        shared = self._shared.get(prompt[:_HEAD])
        if shared is None or len(prompt) <= longest:
            return head_and_tail(prompt.strip(), longest)
        start, end = _differing_part(prompt, shared)
        start, end = _with_context(start, end, len(prompt), longest - 2)
        before, after = "…" if start else "", "…" if end < len(prompt) else ""
        return f"{before}{head_and_tail(prompt[start:end], longest - len(before) - len(after))}{after}"


def _differing_part(text: str, shared: _Shared) -> tuple[int, int]:
    """Return the start and the end of what is not shared. No word is divided."""
    start = _shared_length(text, shared.beginning)
    while start and not text[start - 1].isspace():
        start -= 1
    end = len(text) - _shared_length(text[::-1], shared.ending[::-1])
    while end < len(text) and not text[end].isspace():
        end += 1
    return start, max(start, end)


def _with_context(start: int, end: int, length: int, longest: int) -> tuple[int, int]:
    """Widen a part of a text of some length to `longest` characters, evenly on both sides."""
    spare = longest - (end - start)
    if spare <= 0:
        return start, end
    before = min(start, spare // 2)
    after = min(length - end, spare - before)
    before = min(start, spare - after)
    return start - before, end + after


def _shared_length(one: str, other: str) -> int:
    """Return how many characters two texts share at their beginnings."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
