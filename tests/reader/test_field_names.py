"""What the fields of a record are: by their names, by the formats of trainers, by the user's choice."""

import pytest

from verl_rollout_dump.reader import FieldNames
from verl_rollout_dump.reader.messages import messages_text

NAMES = FieldNames()
CALL = {"type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


@pytest.mark.parametrize(
    ("record", "prompt", "response", "score", "group"),
    [
        ({"input": "p", "output": "r", "score": 1, "uid": "u"}, "p", "r", 1.0, "u"),
        ({"prompt": "p", "completion": "r", "reward": True}, "p", "r", 1.0, None),
        ({"prompt": "p", "completion": "r", "acc_reward": 0.5, "advantage": 0.1}, "p", "r", 0.5, None),  # TRL
        ({"prompt": "p", "completion": "r", "a": 1, "b": 1, "advantage": 0.1}, "p", "r", None, None),  # which weights?
        ({"prompt": "p", "response": "r", "reward": {"score": 0.25, "acc": 1}, "group_index": 3}, "p", "r", 0.25, "3"),
        ({"prompt": "p", "response": "r", "reward": {"acc": 1}}, "p", "r", None, None),
        (
            {"example_id": 7, "prompt": [{"role": "user", "content": "p"}], "reward": 1.0,
             "completion": [{"role": "assistant", "content": "r"}]},
            "p", "r", 1.0, "7",
        ),
        ({"messages": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "r"}]}, "p", "r", None, None),
        ({"messages": [{"role": "user", "content": "p"}]}, "p", "", None, None),
        ({"uid": "aime_2024_0"}, "", "", None, "aime_2024_0"),
    ],
)  # fmt: skip
def test_recognised_formats(record, prompt, response, score, group):
    assert (NAMES.text(record, "prompt"), NAMES.text(record, "response")) == (prompt, response)
    assert (NAMES.score_of(record), NAMES.group_of(record)) == (score, group)


def test_a_choice_comes_first_and_reaches_into_objects():
    names = FieldNames(score="reward.acc", response="answer.text", group="task")
    record = {"score": 1.0, "output": "o", "reward": {"acc": 0.5}, "answer": {"text": "a"}, "task": 3, "uid": "u_0_0"}
    assert (names.score_of(record), names.text(record, "response"), names.group_of(record)) == (0.5, "a", "3")
    assert names.score_of({"reward.acc": 0.75}) == 0.75
    assert names.score_of({"score": 1.0}) is None
    assert names.extras(record).keys() == {"score", "output", "reward", "uid"}


def test_uids_are_cut_only_where_run_json_says_their_form():
    assert FieldNames(has_rollout_uids=True).group_of({"uid": "aime_2024_0_1_0"}) == "aime_2024_0"
    assert FieldNames(has_rollout_uids=True, group="uid").group_of({"uid": "a_1_0"}) == "a_1_0"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"role": "assistant", "content": None, "tool_calls": [CALL]}, '[tool call] add({"a": 1})'),
        ({"role": "assistant", "content": "c", "reasoning_content": "why"}, "<think>why</think>\nc"),
        ({"role": "user", "content": [{"type": "text", "text": "look: "}, {"type": "image_url"}]}, "look: [image_url]"),
        ({"role": "assistant", "content": None}, ""),
        ({"role": "tool", "content": {"b": 2}}, '{"b":2}'),
    ],
)
def test_messages(message, text):
    assert messages_text([message]) == text
    assert messages_text([{"role": "system", "content": "s"}, message]) == f"system\ns\n{message['role']}\n{text}"
