"""Where the cursor goes in the list of a step."""

from __future__ import annotations

from collections.abc import Sequence

from verl_rollout_dump.viewer.source import GroupLine, ListLine, RecordLine


def first_of_group(lines: Sequence[ListLine], cursor: int, direction: int) -> int:
    """Return the line of the first record of the next (1) or previous (-1) group; where there is none, the cursor."""
    firsts = [number + 1 for number, line in enumerate(lines) if isinstance(line, GroupLine)]
    if direction > 0:
        return next((first for first in firsts if first > cursor), cursor)
    return next((first for first in reversed(firsts) if first < cursor), cursor)


def records_from(lines: Sequence[ListLine], cursor: int, direction: int) -> dict[int, int]:
    """Return index -> line of all records, in the order in which a search from the cursor looks at them.

    Forwards (1), backwards (-1), or forwards with the record under the cursor first (0); around the end of the list.
    """
    count = len(lines)
    step = -1 if direction < 0 else 1
    start = cursor + (step if direction else 0)
    around = [(start + step * distance) % count for distance in range(count)]
    return {line.index: number for number in around if isinstance(line := lines[number], RecordLine)}
