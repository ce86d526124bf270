"""Part of bench_dump.py: the v1 trainer, whose batch lies in TransferQueue, dumped by verl and by us in turn.

verl asks for five fields and decodes row by row on the training thread. We ask for what the dump needs, the reward
extras among it, which verl drops; text is made in the background.
"""

from __future__ import annotations

import inspect
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ray
import torch
import transfer_queue
from measuring import Row, spread
from omegaconf import OmegaConf
from sides import Bench, OurDump, OurTrainer, TrainingBatch, VerlDump, dump_once
from transfer_queue.metadata import KVBatchMeta
from verl.trainer.ppo.v1 import trainer_base
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from verl_rollout_dump.integrations.verl.v1 import V1_FIELDS, V1Adapter
from verl_rollout_dump.integrations.verl.wrappers import fire_rollouts

vars(trainer_base)["print"] = lambda *texts: None  # verl prints a line for every file
REPEATS = {"S": 9, "M": 5, "L": 3}
# What a training leaves in the queue beside that, by token; nothing of it is dumped.
OTHER_FIELDS = ("attention_mask", "position_ids", "response_mask", "old_log_probs", "ref_log_prob", "advantages")


@contextmanager
def queue() -> Iterator[None]:
    """Run a TransferQueue on a Ray of its own."""
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        ray.init(num_cpus=2, include_dashboard=False, _temp_dir=folder, log_to_driver=False, logging_level="ERROR")
        transfer_queue.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1}}}))
        try:
            yield
        finally:
            transfer_queue.close()
            ray.shutdown()


def put(batch: TrainingBatch) -> KVBatchMeta:
    """Put the rollouts of a batch into the queue, without their padding."""
    tensors, others = batch.proto.batch, batch.proto.non_tensor_batch
    split = tensors["prompts"].shape[1]
    masks = tensors["attention_mask"].bool()
    keys = [f"{uid}_{row % 8}_0" for row, uid in enumerate(others["uid"])]
    fields = []
    for row, key in enumerate(keys):
        prompt, response = tensors["prompts"][row][masks[row, :split]], tensors["responses"][row][masks[row, split:]]
        record = {
            "uid": key.rsplit("_", 2)[0],
            "prompts": prompt,
            "responses": response,
            "rm_scores": tensors["token_level_scores"][row][masks[row, split:]],
            "reward_model": others["reward_model"][row],
            "extra_fields": {"reward_extra_info": {name: values[row] for name, values in batch.extras.items()}},
        }
        fields.append(record | {name: torch.zeros(len(response)) for name in OTHER_FIELDS})
    tags = [{"is_padding": False, "response_len": len(record["responses"])} for record in fields]
    transfer_queue.kv_batch_put(keys=keys, partition_id="train", fields=list_of_dict_to_tensordict(fields), tags=tags)
    return KVBatchMeta(partition_id="train", keys=keys, tags=tags)


class VerlV1Dump(VerlDump):
    """verl's v1 `_log_rollout_data` on a trainer without anything else."""

    trainer_class = PPOTrainerSync

    def hand_over(self, step: int, batch: KVBatchMeta) -> None:
        """Do what verl does on the training thread."""
        self._trainer.global_steps = step
        self._trainer._log_rollout_data(batch, {}, str(self._directory))


class OurV1Trainer(OurTrainer):
    """A v1 trainer with what stands in the place of verl's method."""

    _log_rollout_data = fire_rollouts(V1Adapter())(inspect.unwrap(PPOTrainerSync._log_rollout_data))


class OurV1Dump(OurDump):
    """Ours, given the keys."""

    trainer_class = OurV1Trainer

    def hand_over(self, step: int, batch: KVBatchMeta) -> None:
        """Do what is done on the training thread, reading the queue included."""
        self._trainer.global_steps = step
        self._trainer._log_rollout_data(batch, {}, str(self._directory))


SIDES = {"verl": VerlV1Dump, "ours": OurV1Dump}
# What each side asks of the queue, and what there is.
ASKED = {
    "verl": ["uid", "prompts", "responses", "rm_scores", "reward_model"],
    "ours": list(V1_FIELDS),
    "everything": ["uid", *V1_FIELDS, *OTHER_FIELDS],
}


def read_ms(batch: KVBatchMeta, fields: list[str]) -> float:
    """Return how long the training thread waits for these fields."""
    start = time.perf_counter()
    transfer_queue.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
    return (time.perf_counter() - start) * 1e3


def transfer_queue_dump(bench: Bench) -> list[Row]:
    """The v1 trainer: CPU of this process, time from call to return, and how much of that is reading the queue."""
    rows = []
    with queue():
        for shape in bench.shapes:
            batch, repeats = put(bench.batch(shape)), REPEATS[shape]
            with tempfile.TemporaryDirectory() as folder:
                dumps = {name: make(bench.tokenizer, Path(folder, name)) for name, make in SIDES.items()}
                for dump in dumps.values():
                    dump_once(bench, dump, batch)  # does not count
                runs = [{name: dump_once(bench, dump, batch) for name, dump in dumps.items()} for _ in range(repeats)]
                for dump in dumps.values():
                    dump.close()
            reads = [{name: read_ms(batch, fields) for name, fields in ASKED.items()} for _ in range(repeats)]
            transfer_queue.kv_clear(keys=batch.keys, partition_id="train")
            rows += [v1_row(shape, name, runs, reads) for name in ASKED]
    return rows


def v1_row(shape: str, side: str, runs: list[dict[str, Row]], reads: list[dict[str, float]]) -> Row:
    """Put the figures of one side together; of reading everything there is only that."""
    reading = {"read_ms": spread(read[side] for read in reads)}
    if side not in SIDES:
        return {"shape": shape, "side": side, "cpu_ms": "", "call_ms": "", **reading}
    return {
        "shape": shape,
        "side": side,
        **{kind: spread(run[side][kind] for run in runs) for kind in ("cpu_ms", "call_ms")},
        **reading,
    }
