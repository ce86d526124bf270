"""`run.json` says how uids name rollouts, so that readers know which rollouts belong together."""

import json

from verl_rollout_dump import RolloutDumpCallback
from verl_rollout_dump.analysis.stats import step_stats
from verl_rollout_dump.reader import open_dump
from verl_rollout_dump.storage.run_record import ROLLOUT_UIDS

UIDS = ["u_0_0", "u_1_0", "v_0_0", "v_1_0"]


def dump_step(directory, batch, step, **columns):
    with RolloutDumpCallback.from_config({"path": {"dir": str(directory)}}) as callback:
        callback.on_rollout_end(batch(4, step=step, uids=UIDS, scores=[0, 1, 1, 1], **columns))
    return json.loads((directory / "run.json").read_text())


def test_uids_of_rollouts_give_groups_by_what_precedes_the_numbers(tmp_path, batch):
    assert dump_step(tmp_path, batch, 1, uid_form=ROLLOUT_UIDS)["uid_form"] == "{uid}_{session}_{output}"
    (stats,) = step_stats(open_dump(tmp_path))
    assert (stats.groups, stats.groups_without_signal) == (2, 1)


def test_a_later_attempt_keeps_what_is_recorded(tmp_path, batch):
    dump_step(tmp_path, batch, 1, uid_form=ROLLOUT_UIDS)
    assert dump_step(tmp_path, batch, 2)["uid_form"] == ROLLOUT_UIDS


def test_uids_of_prompts_need_no_record(tmp_path, batch):
    assert "uid_form" not in dump_step(tmp_path, batch, 1)
    (stats,) = step_stats(open_dump(tmp_path))
    assert stats.groups == 0  # four prompts, four uids


def test_rows_of_a_batch_keep_the_form(batch):
    assert batch(4, uids=UIDS, uid_form=ROLLOUT_UIDS).take([1, 3]).uid_form == ROLLOUT_UIDS
