"""Rollouts of other trainers: their scores, responses and groups are recognised, or blank with the reason.

TRL's files were written by TRL itself (`other_trainers/trl_writer.py`). slime's and prime-rl's records have the fields
that their writers give them.
"""

import json
from pathlib import Path

import pytest
from other_trainers import trl_writer

from verl_rollout_dump.analysis.stats import step_stats
from verl_rollout_dump.reader import FieldNames, open_dump

FILES = Path(__file__).parent / "other_trainers"
SLIME = {
    "group_index": 0, "index": 0, "prompt": "2+2=", "tokens": [1, 2, 3], "response": "4", "response_length": 1,
    "label": "4", "reward": 1.0, "loss_mask": [1], "status": "completed", "metadata": {}, "spec_info": {},
}  # fmt: skip
PRIME_RL = {
    "example_id": 3, "task": "gsm8k", "prompt": [{"role": "user", "content": "2+2="}],
    "completion": [{"role": "assistant", "content": "4"}], "reward": 1.0, "is_truncated": False,
    "metrics": {"num_turns": 1}, "advantage": 0.0,
}  # fmt: skip


def only_step(path, **chosen):
    (stats,) = step_stats(open_dump(path, FieldNames(**chosen)))
    return stats


def check_one_reward(path):
    stats = only_step(path)
    assert (stats.step, stats.records, stats.score.mean) == (12, 4, 0.75)
    assert (stats.groups, stats.groups_without_signal, stats.response_length.mean) == (2, 1, 1.25)
    assert stats.extras.keys() == {"advantage"}


def check_two_rewards(path):
    stats = only_step(path)
    assert (stats.score.count, stats.groups, stats.groups_without_signal) == (0, 2, None)
    assert (
        "no field is a score" in stats.unknown["score"] and "accuracy_reward, format_reward" in stats.unknown["score"]
    )
    chosen = only_step(path, score="format_reward")
    assert (chosen.score.mean, chosen.null_scores, chosen.groups_undecided) == (1 / 3, 1, 1)


def test_files_of_trl():
    pytest.importorskip("pyarrow")
    check_one_reward(FILES / "trl_one_reward")
    check_two_rewards(FILES / "trl_two_rewards")


def test_files_that_the_installed_trl_writes(tmp_path, monkeypatch):
    pytest.importorskip("trl")
    check_one_reward(trl_writer.write(tmp_path / "one", trl_writer.REWARDS["one"], monkeypatch))
    check_two_rewards(trl_writer.write(tmp_path / "two", trl_writer.REWARDS["two"], monkeypatch))


def written(folder, records):
    (folder / "rollout_5.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def test_slime(tmp_path):
    rewards = (1.0, 0.0, 1.0, 1.0)
    records = [{**SLIME, "group_index": i // 2, "index": i, "reward": r} for i, r in enumerate(rewards)]
    records[3]["status"] = "truncated"
    stats = only_step(written(tmp_path, records))
    assert (stats.step, stats.score.mean, stats.groups, stats.groups_without_signal) == (5, 0.75, 2, 1)
    assert (stats.truncated, stats.response_length.mean) == (0.25, 1)


def test_slime_with_a_reward_object(tmp_path):
    known = only_step(written(tmp_path, [{**SLIME, "reward": {"score": 0.5, "acc": 1}}]))
    assert known.score.mean == 0.5
    path = written(tmp_path, [{**SLIME, "reward": {"acc": 1.0, "format": 0.0}}])
    why = only_step(path).unknown["score"]
    assert why == "the score is an object with the keys acc, format, not a number; name another field with --score"
    assert only_step(path, score="reward.acc").score.mean == 1.0


def test_prime_rl(tmp_path):
    folder = tmp_path / "rollouts" / "step_7"
    folder.mkdir(parents=True)
    records = [{**PRIME_RL, "reward": reward, "is_truncated": not reward} for reward in (1.0, 0.0)]
    (folder / "train_rollouts.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    stats = only_step(tmp_path / "rollouts")
    assert (stats.step, stats.score.mean, stats.groups, stats.truncated) == (7, 0.5, 1, 0.5)
    assert stats.response_length.mean == 1
    record = open_dump(tmp_path / "rollouts").record(7, 0)
    assert (FieldNames().text(record, "prompt"), FieldNames().text(record, "response")) == ("2+2=", "4")


def test_openai_messages(tmp_path):
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    records = [
        {"messages": [{"role": "user", "content": "p"}, reply]}
        for reply in (call, {"role": "assistant", "content": "r"})
    ]
    stats = only_step(written(tmp_path, records))
    assert (stats.empty, stats.groups, stats.score.count) == (0, 1, 0)
    assert stats.unknown.keys() == {"score"}
