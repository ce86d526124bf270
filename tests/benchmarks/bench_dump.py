"""The whole dump, beside verl 0.9.1's own functions on the same batches.

    python tests/benchmarks/bench_dump.py [--quick] [--json FILE] [--only PART ...]

Both get the same DataProto: verl through its `_log_rollout_data`, we through what its seam calls. They take turns.
CPU is that of all threads, from the call until the file is complete. Everything is warm: our table of the vocabulary
is made before (bench_decode.py shows what it costs).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

from measuring import Row, add_options, parsed, show, write_json
from part_memory import peak_memory
from part_outputs import compression, growth, token_level
from part_training_thread import busy_training_thread
from part_transfer_queue import transfer_queue_dump
from part_whole_dump import whole_dump
from sides import Bench
from workload import SHAPES, TOKENIZERS

PARTS: dict[str, Callable[[Bench], list[Row]]] = {
    "whole": whole_dump,
    "busy": busy_training_thread,
    "v1": transfer_queue_dump,
    "memory": peak_memory,
    "growth": growth,
    "tokens": token_level,
    "compression": compression,
}


def cell(value: Any) -> Any:
    """Return a figure for the table: median (min-max) where it is a spread."""
    return "{median:,.2f} ({min:,.2f}-{max:,.2f})".format(**value) if isinstance(value, dict) else value


def main() -> None:
    """Print one table for each part, and write all as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, SHAPES, TOKENIZERS)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS), help="parts to run (all)")
    options = parsed(parser)
    bench = Bench(options.tokenizer, options.repeats)
    results = {}
    for part in options.only:
        results[part] = PARTS[part](bench)
        columns = list(results[part][0])
        show(
            f"{part}: {PARTS[part].__doc__}", columns, [[cell(row[name]) for name in columns] for row in results[part]]
        )
    write_json(options.json, {"tokenizer": options.tokenizer, "cpus": os.cpu_count(), **results})


if __name__ == "__main__":
    main()
