"""Records on one line each: step, index, score, length, label of the prompt, both ends of the response."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from verl_rollout_dump.analysis.formatting import head_and_tail
from verl_rollout_dump.analysis.labels import PromptLabels
from verl_rollout_dump.reader import Row
from verl_rollout_dump.reader.field_names import FieldNames

_BLOCK = 200  # records whose prompts are compared for labels
_NARROWEST = 40  # characters for both texts


def brief_lines(rows: Iterable[Row], fields: FieldNames, width: int) -> Iterator[str]:
    """Yield a line of about `width` characters for each record."""
    remaining = iter(rows)
    for first in remaining:
        block = [first, *islice(remaining, _BLOCK - 1)]
        prompts = [fields.text(row.record, "prompt") for row in block]
        labels = PromptLabels(prompts)
        for row, prompt in zip(block, prompts, strict=True):
            figures = _figures(row, fields)
            room = max(_NARROWEST, width - len(figures) - 5)
            response = head_and_tail(fields.text(row.record, "response").strip(), room - room // 2)
            yield f"{figures}  {labels.label(prompt, room // 2):<{room // 2}} │ {response}"


def _figures(row: Row, fields: FieldNames) -> str:
    """Return step, index, score and length of the response in characters."""
    score = fields.score_of(row.record)
    shown = "" if score is None else f"{score:.4g}"
    return f"{row.step:>5} {row.index:>5} {shown:>7} {len(fields.text(row.record, 'response')):>7}"
