"""Four Ray actors pull the batch of the v1 trainer out of TransferQueue, each its part; the driver only waits."""

import json
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.verl

from verl_rollout_dump import RolloutDumpCallback  # noqa: E402
from verl_rollout_dump.integrations.verl.v1 import V1Adapter  # noqa: E402
from verl_rollout_dump.storage.lineage import lineage_parts  # noqa: E402


def put(queue, tokenizer, rows):
    """Put rollouts into the queue as verl's agent loop does; return the batch that its replay buffer makes of them."""
    from transfer_queue.metadata import KVBatchMeta
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict

    def tokens(text):
        return torch.tensor(tokenizer(text)["input_ids"])

    fields = [
        {
            "prompts": tokens("what is"),
            "responses": tokens(f"answer {row}"),
            "rm_scores": torch.zeros(len(tokens(f"answer {row}"))).index_fill(0, torch.tensor([0]), float(row)),
            "response_mask": torch.full_like(tokens(f"answer {row}"), row % 2),
            "reward_model": {"ground_truth": "g", "style": "rule"},
            "extra_fields": {"reward_extra_info": {"row": row}, "global_steps": 3},
        }
        for row in range(rows)
    ]
    keys, tags = [f"u_0_{row}" for row in range(rows)], [{"is_padding": row == 0} for row in range(rows)]
    queue.kv_batch_put(keys=keys, partition_id="train", fields=list_of_dict_to_tensordict(fields), tags=tags)
    return KVBatchMeta(partition_id="train", keys=keys, tags=tags)


def test_each_writer_pulls_its_part(queue, tiny_assets, tmp_path):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_assets / "model")
    batch = put(queue, tokenizer, 13)
    node = {"path": {"dir": str(tmp_path)}, "writer": {"mode": "ray", "shards": 4}, "on_error": "raise"}
    with RolloutDumpCallback.from_config(node) as callback:
        callback.tokenizer = tokenizer
        trainer = SimpleNamespace(global_steps=3, config={"algorithm": {"filter_groups": {"enable": True}}})
        callback.on_rollouts_at(V1Adapter().source(trainer, {"batch": batch}))
        queue.kv_clear(keys=batch.keys, partition_id="train")  # as the trainer does next
    paths = lineage_parts(tmp_path)[3]
    records = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    assert len(paths) == 4
    assert [(r["row"], r["score"], r["uid"], r["step"]) for r in records] == [
        (row, float(row), f"u_0_{row}", 3) for row in range(1, 13)
    ]
    assert [record["outcome"] for record in records] == ["trained", "rejected"] * 6
    assert (callback.report.records_written, callback.report.padding_rows) == (12, 1)
