"""What the fields of a record mean, by the names that trainers give them.

    role           verl, verl_rollout_dump   TRL and others
    prompt         input                     prompt, question
    response       output                    completion, response, generated_text
    ground_truth   gts                       ground_truth, solution, answer, label
    score          score                     reward, rewards/total, total_reward
    uid            uid                       prompt_id, group_id

The first name that a record has counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

ROLES: dict[str, tuple[str, ...]] = {
    "prompt": ("input", "prompt", "question"),
    "response": ("output", "completion", "response", "generated_text"),
    "ground_truth": ("gts", "ground_truth", "solution", "answer", "label"),
    "score": ("score", "reward", "rewards/total", "total_reward"),
    "uid": ("uid", "prompt_id", "group_id"),
}
# verl's newer trainer makes a uid of its own for each rollout: the prompt's, the rollout's number, the turn's.
ROLLOUT_OF_PROMPT = re.compile(r"_\d+_\d+$")


def value_of(record: Mapping[str, Any], role: str) -> Any:
    """Return what a record has in a role, or None."""
    for name in ROLES[role]:
        if name in record:
            return record[name]
    return None


def text_of(record: Mapping[str, Any], role: str) -> str:
    """Return what a record has in a role as text; chat messages become their contents, None an empty text."""
    value = value_of(record, role)
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list) and value and all(isinstance(item, dict) and "content" in item for item in value):
        return "\n".join(f"{item.get('role', '')}\n{item['content']}" for item in value)
    return str(value)


def number_of(value: Any) -> float | None:
    """Return a number (a bool counts as 0 or 1), or None for anything else."""
    return float(value) if isinstance(value, (int, float)) else None


def score_of(record: Mapping[str, Any]) -> float | None:
    """Return the score of a record, or None where it has none that is a number."""
    return number_of(value_of(record, "score"))


def prompt_uid(record: Mapping[str, Any]) -> str | None:
    """Return the uid that the rollouts of one prompt share, or None."""
    uid = value_of(record, "uid")
    return None if uid is None else ROLLOUT_OF_PROMPT.sub("", str(uid))


def extras_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the reward function added."""
    taken = names_with_roles(tuple(record))
    return {name: value for name, value in record.items() if name not in taken}


@lru_cache(maxsize=1024)
def names_with_roles(keys: tuple[str, ...]) -> frozenset[str]:
    """Return the names that are no extras in records with these keys."""
    firsts = (next((name for name in names if name in keys), "") for names in ROLES.values())
    return frozenset((*firsts, "step", "request_id"))
