"""Parts of bench_dump.py about our side: growth with the number of tokens, token-level dumps, compression."""

from __future__ import annotations

import json
import statistics
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from measuring import Row, in_turn, spread, timed
from sides import Bench, OurDump, TrainingBatch, dump_once, remove_steps
from workload import token_stream

from verl_rollout_dump import RolloutBatch
from verl_rollout_dump.dump.line_encoder import json_arrays, rows_per_chunk
from verl_rollout_dump.dump.snapshot_fields import TokenArrayField
from verl_rollout_dump.dump.token_rows import Chunk, TokenRows, token_rows


def growth(bench: Bench) -> list[Row]:
    """CPU per token of our dump from a thousand to fifty million tokens."""
    stream = np.resize(token_stream(bench.tokenizer), 50_000_000 if "L" in bench.shapes else 100_000)
    rows = []
    for tokens in (
        count for count in (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000) if count <= stream.size
    ):
        length = min(tokens, 5000)
        ids = stream[:tokens].reshape(-1, length)
        with tempfile.TemporaryDirectory() as folder:
            dump = OurDump(bench.tokenizer, Path(folder))

            def run(dump: OurDump = dump, ids: np.ndarray = ids, folder: str = folder) -> None:
                columns: Row = {"prompts": [""] * len(ids), "scores": np.zeros(len(ids))}
                dump.callback.on_rollout_end(RolloutBatch(step=bench.next_step(), responses=ids, **columns))
                dump.finish()
                remove_steps(Path(folder))

            run()
            cpu = [timed(run)[0] for _ in range(5)]
            dump.close()
        rows.append({"tokens": tokens, "cpu_ms": spread(seconds * 1e3 for seconds in cpu)})
        rows[-1]["ns_per_token"] = round(statistics.median(cpu) / tokens * 1e9, 1)
    return rows


def token_level(bench: Bench) -> list[Row]:
    """Ids and log-probabilities as arrays (`fields.tokens`), beside `json.dumps` of `tolist()`: in files, and alone."""
    rows = []
    for shape in bench.shapes:
        batch, repeats = bench.batch(shape), max(3, bench.repeats[shape] // 3)
        fields = {"include": ["prompt_ids", "response_ids", "rollout_log_probs"], "tokens": True}
        with tempfile.TemporaryDirectory() as folder:
            dump = OurDump(bench.tokenizer, Path(folder), fields=fields)

            def ours(dump: OurDump = dump, batch: TrainingBatch = batch, folder: str = folder) -> None:
                dump.hand_over(bench.next_step(), batch)
                dump.finish()
                remove_steps(Path(folder))

            files = in_turn(
                {"json.dumps of tolist()": partial(tokens_by_json, batch, Path(folder)), "ours": ours}, repeats
            )
            dump.close()
        columns = token_columns(batch)
        alone = {"json.dumps of tolist()": partial(arrays_by_json, columns), "ours": partial(arrays_by_us, columns)}
        rows += token_rows_of(shape, "file", files) + token_rows_of(shape, "arrays alone", in_turn(alone, repeats))
    return rows


def token_rows_of(shape: str, what: str, seconds: dict[str, list[tuple[float, float]]]) -> list[Row]:
    """Put the figures of both sides together."""
    medians = {side: statistics.median(cpu for cpu, _ in runs) for side, runs in seconds.items()}
    of_json = next(iter(medians.values()))
    return [
        {
            "shape": shape,
            "what": what,
            "side": side,
            "cpu_ms": spread(cpu * 1e3 for cpu, _ in runs),
            "times_json": round(of_json / medians[side], 1),
        }
        for side, runs in seconds.items()
    ]


def token_columns(batch: TrainingBatch) -> list[TokenRows]:
    """Return the prompts, the responses and their log-probabilities with their masks."""
    tensors = batch.proto.batch
    split = tensors["prompts"].shape[1]
    masks = {"prompts": tensors["attention_mask"][:, :split], "responses": tensors["attention_mask"][:, split:]}
    masks["rollout_log_probs"] = masks["responses"]
    return [token_rows(name, tensors[name], mask) for name, mask in masks.items()]


def arrays_by_json(columns: list[TokenRows]) -> int:
    """Make JSON of the real part of each row by json; return how many characters."""
    pairs = ((row, mask) for tokens in columns for row, mask in zip(tokens.numbers, tokens.mask, strict=True))
    return sum(len(json.dumps(row[mask != 0].tolist())) for row, mask in pairs)


def arrays_by_us(columns: list[TokenRows]) -> int:
    """Make the same as the dump does, in the chunks of the dump."""
    size, n = rows_per_chunk([TokenArrayField("", tokens) for tokens in columns]), len(columns[0])
    chunks = [Chunk(first, min(first + size, n)) for first in range(0, n, size)]
    return sum(len(array) for chunk in chunks for tokens in columns for array in json_arrays(*tokens.of(chunk)))


def tokens_by_json(batch: TrainingBatch, folder: Path) -> None:
    """Write what a trainer's author would: each row without its padding, by json."""
    tensors = batch.proto.batch
    split = tensors["prompts"].shape[1]
    masks = tensors["attention_mask"][:, :split].bool(), tensors["attention_mask"][:, split:].bool()
    with open(folder / "tokens.jsonl", "w", encoding="utf-8") as file:
        for row in range(len(batch.proto)):
            record = {
                "prompt_ids": tensors["prompts"][row][masks[0][row]].tolist(),
                "response_ids": tensors["responses"][row][masks[1][row]].tolist(),
                "rollout_log_probs": tensors["rollout_log_probs"][row][masks[1][row]].tolist(),
            }
            file.write(json.dumps(record) + "\n")
    (folder / "tokens.jsonl").unlink()


def compression(bench: Bench) -> list[Row]:
    """What `writer.compression` costs and saves."""
    rows = []
    for shape in bench.shapes:
        batch = bench.batch(shape)
        for kind in (None, "zstd", "gzip"):
            with tempfile.TemporaryDirectory() as folder:
                dump = OurDump(bench.tokenizer, Path(folder), writer={"compression": kind})
                dump_once(bench, dump, batch)
                remove_steps(Path(folder))
                runs = [dump_once(bench, dump, batch)["cpu_ms"] for _ in range(3)]
                size = next(Path(folder).glob("*.jsonl*")).stat().st_size
                dump.close()
            rows.append({"shape": shape, "compression": kind or "none", "cpu_ms": spread(runs), "file_mb": size / 1e6})
    return rows
