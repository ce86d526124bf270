"""What the fields of a record mean, by the names that trainers give them.

    role           verl, verl_rollout_dump   TRL, slime, miles, prime-rl and others
    prompt         input                     prompt, question
    response       output                    completion, response, generated_text
    ground_truth   gts                       ground_truth, solution, answer, label
    score          score                     reward, rewards/total, total_reward
    uid            uid                       prompt_id, group_id, group_index, example_id

The first name that a record has counts, unless a user chose another field (`FieldNames`). Beyond the names:

- A score that is an object gives its `score`, `reward` or `total` (slime's reward functions return objects).
- TRL's completions have one column per reward function, between `completion` and `advantage`. If there is exactly one,
  it is the score; of several only the user knows the weights.
- In a record with OpenAI `messages` and no response, the last assistant message is the response and all messages
  before it are the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import orjson

from verl_rollout_dump.reader.messages import is_messages, messages_text

_Fields = Mapping[str, Any]
ROLES: Final[dict[str, tuple[str, ...]]] = {
    "prompt": ("input", "prompt", "question"),
    "response": ("output", "completion", "response", "generated_text"),
    "ground_truth": ("gts", "ground_truth", "solution", "answer", "label"),
    "score": ("score", "reward", "rewards/total", "total_reward"),
    "uid": ("uid", "prompt_id", "group_id", "group_index", "example_id"),
}
ROLLOUT_OF_PROMPT: Final = re.compile(r"_\d+_\d+$")  # what `ROLLOUT_UIDS` adds to the uid of the prompt
_SCORES_IN_OBJECT: Final = ("score", "reward", "total")
_NO_EXTRAS = ("step", "request_id")
ABSENT: Final = object()


def look_up(record: _Fields, path: tuple[str, ...]) -> Any:
    """Return a field by its path: as one key with dots, else part by part into nested objects; `ABSENT` without it."""
    whole = path[0] if len(path) == 1 else ".".join(path)
    if whole in record:
        return record[whole]
    value: Any = record
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            return ABSENT
        value = value[part]
    return value


@dataclass(frozen=True)
class FieldNames:
    """The fields that a user chose for roles, with dots into nested objects; None: by the names in `ROLES`.

    `group` identifies the rollouts of one prompt. `has_rollout_uids` says that the uids of the dump are of the form
    `storage.run_record.ROLLOUT_UIDS`: their last two numbers do not belong to the group.
    """

    prompt: str | None = None
    response: str | None = None
    score: str | None = None
    group: str | None = None
    has_rollout_uids: bool = False

    @cached_property
    def chosen(self) -> dict[str, str]:
        """The fields that the user chose, by role; `uid` is the role of `group`."""
        given = {"prompt": self.prompt, "response": self.response, "score": self.score, "uid": self.group}
        return {role: name for role, name in given.items() if name is not None}

    def find(self, record: _Fields, role: str) -> Any:
        """Return the value of a role (a key of `ROLES`) in a record, `ABSENT` if no field has the role."""
        if role in self.chosen:
            return look_up(record, tuple(self.chosen[role].split(".")))
        for name in ROLES[role]:
            if name in record:
                return record[name]
        infer = _INFERRED.get(role)
        return ABSENT if infer is None else infer(record)

    def value(self, record: _Fields, role: str) -> Any:
        """Return the value of a role in a record, None if no field has the role."""
        value = self.find(record, role)
        return None if value is ABSENT else value

    def text(self, record: _Fields, role: str) -> str:
        """Return the value of a role as text: messages rendered, other values as JSON, "" for None."""
        return text_of_value(self.value(record, role))

    def score_of(self, record: _Fields) -> float | None:
        """Return the score of a record, None if it is not a number. A bool counts as 0 or 1."""
        value = self.value(record, "score")
        if isinstance(value, dict):
            value = next((value[name] for name in _SCORES_IN_OBJECT if name in value), None)
        return float(value) if isinstance(value, (int, float)) else None

    def group_of(self, record: _Fields) -> str | None:
        """Return what the rollouts of one prompt share by the chosen group field or the uid; None without one."""
        value = self.value(record, "uid")
        if value is None:
            return None
        text = text_of_value(value)
        return ROLLOUT_OF_PROMPT.sub("", text) if self.has_rollout_uids and self.group is None else text

    def extras(self, record: _Fields) -> dict[str, Any]:
        """Return the fields without a role: what the reward function added."""
        taken = fields_with_roles(self, tuple(record))
        return {name: value for name, value in record.items() if name not in taken}


DEFAULT_FIELDS: Final = FieldNames()


def text_of_value(value: Any) -> str:
    """Return a value as text: a text itself, messages rendered, "" for None, anything else as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return messages_text(value) if is_messages(value) else orjson.dumps(value, default=str).decode()


@lru_cache(maxsize=1024)
def fields_with_roles(fields: FieldNames, keys: tuple[str, ...]) -> frozenset[str]:
    """Return the top-level keys that have a role in records with these keys, and `step` and `request_id`."""
    chosen = fields.chosen
    firsts = (
        next((name for name in names if name in keys), _inferred_key(role, keys))
        for role, names in ROLES.items()
        if role not in chosen
    )
    return frozenset((*(name for name in firsts if name), *chosen.values(), *_NO_EXTRAS))


def _inferred_key(role: str, keys: tuple[str, ...]) -> str | None:
    if role == "score":
        return _only_reward_column(keys)
    return "messages" if role in ("prompt", "response") and "messages" in keys else None


@lru_cache(maxsize=1024)
def _only_reward_column(keys: tuple[str, ...]) -> str | None:
    """Return the one column between `completion` and `advantage` in TRL's table of completions, else None."""
    if "completion" not in keys or "advantage" not in keys:
        return None
    between = keys[keys.index("completion") + 1 : keys.index("advantage")]
    return between[0] if len(between) == 1 else None


def _only_reward(record: _Fields) -> Any:
    name = _only_reward_column(tuple(record))
    return ABSENT if name is None else record[name]


def _split_messages(record: _Fields) -> tuple[Any, Any]:
    messages: Any = record.get("messages")
    if not is_messages(messages):
        return ABSENT, ABSENT
    if messages[-1].get("role") != "assistant":
        return messages, ABSENT
    return messages[:-1] or ABSENT, messages[-1:]


_INFERRED: dict[str, Callable[[_Fields], Any]] = {
    "score": _only_reward,
    "prompt": lambda record: _split_messages(record)[0],
    "response": lambda record: _split_messages(record)[1],
}
