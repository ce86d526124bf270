"""Decoding responses, beside the way verl 0.9.1 does it.

    python tests/benchmarks/bench_decode.py [--quick] [--json FILE] [--tokenizer deepseek|smollm2]

verl calls `tokenizer.batch_decode` on the padded tensor. The others get the same padded array and know where each
row ends; they return JSON text rather than `str`, which verl makes of its strings later. Every text is compared
before anything is timed. The sides take turns; shown is the CPU time of all threads, and the median wall time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import orjson
import torch
from measuring import Row, add_options, in_turn, parsed, show, spread, timed, write_json
from workload import SHAPES, TOKENIZERS, Ids, responses

from verl_rollout_dump.decode import text_decoder
from verl_rollout_dump.decode.batch import Batch
from verl_rollout_dump.decode.each_row import EachRow

TOKENS_PER_CHUNK = 1 << 20


def by_verl(tokenizer: Any, ids: torch.Tensor) -> list[str]:
    """Decode as verl 0.9.1's `_log_rollout_data` does."""
    return tokenizer.batch_decode(ids, skip_special_tokens=True)


def in_chunks(json_rows: Callable[..., list[bytes]], batch: Ids) -> list[bytes]:
    """Decode as the dump does, some rows at a time."""
    rows = max(1, TOKENS_PER_CHUNK // batch.ids.shape[1])
    texts: list[bytes] = []
    for first in range(0, len(batch.ids), rows):
        part = slice(first, first + rows)
        texts += json_rows(batch.ids[part], batch.starts[part], batch.stops[part])
    return texts


def sides_of(tokenizer: Any, batch: Ids) -> dict[str, Callable[[], list[Any]]]:
    """Return the ways of decoding the batch, verl's first."""
    each_row = EachRow(tokenizer, skip_special_tokens=True)
    decoder = text_decoder(tokenizer)
    decoder.prepare()
    return {
        "verl: batch_decode, padded": partial(by_verl, tokenizer, torch.from_numpy(batch.ids)),
        "decode, row by row": partial(in_chunks, each_row.json_rows, batch),
        "decode_batch, unpadded": partial(
            in_chunks, Batch(tokenizer.backend_tokenizer, True, None, each_row).json_rows, batch
        ),
        f"ours: {decoder.method}": partial(in_chunks, decoder.json_rows, batch),
    }


def check(sides: dict[str, Callable[[], list[Any]]]) -> None:
    """Compare every text of every side."""
    expected, *others = (run() for run in sides.values())
    for texts in others:
        assert [orjson.loads(b'"' + text + b'"') for text in texts] == expected


def bench(tokenizer: Any, name: str, repeats: int) -> list[Row]:
    """Return one row of results per side."""
    batch = responses(tokenizer, SHAPES[name])
    sides = sides_of(tokenizer, batch)
    check(sides)
    tokens = int((batch.stops - batch.starts).sum())
    seconds = in_turn(sides, repeats)
    verl = next(iter(seconds))
    of_verl = np.median([cpu for cpu, _ in seconds[verl]])
    return [
        {
            "shape": name,
            "side": side,
            "tokens": tokens,
            "cpu_ms": spread(cpu * 1000 for cpu, _ in runs),
            "wall_ms": spread(wall * 1000 for _, wall in runs),
            "ns_per_token": round(float(np.median([cpu for cpu, _ in runs])) / tokens * 1e9, 2),
            "times_verl": round(float(of_verl / np.median([cpu for cpu, _ in runs])), 2),
        }
        for side, runs in seconds.items()
    ]


def main() -> None:
    """Print the table, and write it as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, SHAPES, TOKENIZERS)
    options = parsed(parser)
    tokenizer = TOKENIZERS[options.tokenizer]()
    preparing = [timed(text_decoder(tokenizer).prepare)[0] for _ in range(3)]
    print(f"{len(tokenizer):,} tokens in the vocabulary; table and comparison: {min(preparing):.2f} s, once")
    rows = [row for name, repeats in options.repeats.items() for row in bench(tokenizer, name, repeats)]
    columns = ["batch and side", "tokens", "CPU ms", "min", "max", "wall ms", "ns/token", "x verl"]
    cells = [
        [f"{row['shape']}  {row['side']}", row["tokens"], *row["cpu_ms"].values(), row["wall_ms"]["median"]]
        for row in rows
    ]
    for row, line in zip(rows, cells, strict=True):
        line += [row["ns_per_token"], row["times_verl"]]
    show("Decoding responses", columns, cells)
    write_json(options.json, {"python": sys.version.split()[0], "prepare_s": round(min(preparing), 3), "rows": rows})


if __name__ == "__main__":
    main()
