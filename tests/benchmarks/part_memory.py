"""Part of bench_dump.py: peak memory of a dump above the batch itself, in a process of its own.

The kernel's high-water mark of resident memory is set back once the batch is there and everything is imported; what
it has risen by when two files are complete is what the dump takes: tables, copies, text, garbage not yet returned.

    python tests/benchmarks/part_memory.py verl|ours S|M|L TOKENIZER
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import Row
from sides import SHAPES, SIDES, Bench, training_batch
from workload import TOKENIZERS


def peak_memory(bench: Bench) -> list[Row]:
    """Resident memory above the batch, each time in a fresh process."""
    rows = []
    for shape in bench.shapes:
        for side in SIDES:
            command = [sys.executable, __file__, side, shape, bench.tokenizer_name]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            rows.append({"shape": shape, "side": side, "peak_mib": round(int(output.split()[-1]) / 2**20, 1)})
    return rows


def resident(field: str) -> int:
    """Return VmRSS or VmHWM of this process in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def main() -> None:
    """Print the bytes."""
    side, shape, tokenizer_name = sys.argv[1:]
    tokenizer = TOKENIZERS[tokenizer_name]()
    batch = training_batch(tokenizer, SHAPES[shape])
    with tempfile.TemporaryDirectory() as directory:
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # sets the high-water mark back
        dump = SIDES[side](tokenizer, Path(directory))
        for step in (1, 2):
            dump.hand_over(step, batch)
            dump.finish()
        print(max(0, resident("VmHWM") - before))
        dump.close()


if __name__ == "__main__":
    main()
