"""Prompts are told apart by their labels, and cuts show the beginning and the end."""

import pytest

from verl_rollout_dump.analysis.formatting import head_and_tail, printable
from verl_rollout_dump.analysis.labels import PromptLabels

SYSTEM = "You are a helpful assistant that thinks before it answers, and boxes its answer. " * 3
END = "\n<|im_end|>\n<|im_start|>assistant\n"


def labels(prompts, longest):
    made = PromptLabels(prompts)
    return [made.label(prompt, longest) for prompt in prompts]


@pytest.mark.parametrize(
    ("prompts", "longest", "expected"),
    [
        (["What is 3 + 4?", "What is 3 + 5?"], 20, ["What is 3 + 4?", "What is 3 + 5?"]),
        (["x" * 40, "y" * 40], 9, ["xxxx…xxxx", "yyyy…yyyy"]),
        ([f"{SYSTEM}13 + 4{END}", f"{SYSTEM}14 + 4{END}"], 20, ["…answer. 13 + 4⏎<|i…", "…answer. 14 + 4⏎<|i…"]),
        ([f"{SYSTEM}{'a' * 50} Q1?", f"{SYSTEM}{'b' * 50} Q2?"], 14, ["…aaaaaa…aa Q1?", "…bbbbbb…bb Q2?"]),
        ([f"{SYSTEM}one", f"{SYSTEM}two", "Other system prompt. " * 9], 8, ["…r. one", "…r. two", "Othe…pt."]),
        ([f"{SYSTEM}one", f"{SYSTEM}one"], 9, ["You … one", "You … one"]),
        ([f"{SYSTEM}", f"{SYSTEM}more"], 12, ["…s answer. ", "…swer. more"]),
    ],
)  # fmt: skip
def test_labels(prompts, longest, expected):
    found = labels(prompts, longest)
    assert max(map(len, found)) <= longest
    assert found == expected


def test_a_prompt_that_it_was_not_made_with():
    made = PromptLabels([f"{SYSTEM}one", f"{SYSTEM}two"])
    assert made.label(f"{SYSTEM}three", 10) == "…r. three"
    assert made.label(f"{SYSTEM[:90]}{'z' * 90}!", 11) == "…azzzz…zzz!"


@pytest.mark.parametrize(
    ("text", "longest", "shown"),
    [("abcdef", 6, "abcdef"), ("abcdefg", 6, "abc…fg"), ("a\nb\x00c", 9, "a⏎b\\x00c"), ("a\nb\x00c", 7, "a⏎b…00c")],
)
def test_head_and_tail(text, longest, shown):
    assert head_and_tail(text, longest) == shown


def test_a_cut_shows_the_end():
    assert printable("abcdefgh", 4) == "ab… (4 of 8 characters) …gh"
    assert printable("x\x1b" + "y" * 9, 4) == "x\\x1b… (7 of 11 characters) …yy"
