"""Run a real training of verl on this machine's CPU, and show how it goes.

    python -m verl_rollout_dump.verl_cpu.train [--model smollm2|tiny] [hydra overrides of verl ...]

Starts `python -m verl.trainer.main_ppo --config-name verl_cpu` with the environment that it needs. verl's own
output goes to a log file; shown are a line for each phase and step and, if it fails, the end of the log and the
exceptions in it. The exit code is verl's. Afterwards the dump is summarized.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from verl_rollout_dump.verl_cpu.failure import causes
from verl_rollout_dump.verl_cpu.prepare import MODELS, is_prepared
from verl_rollout_dump.verl_cpu.progress import ProgressReader, telling_tail

DEFAULT_DUMP = "outputs/rollouts"  # as in conf/verl_cpu.yaml
ASSETS_ROOT = Path(".cache/verl_cpu")
LOG_ROOT = Path("outputs/logs")
HEARTBEAT_SECONDS = 15
TAIL_LINES = 40
INTERRUPTED = 130  # the exit code of a program that Ctrl-C ended

# What a training on a CPU needs, whatever the caller's environment says.
FIXED_ENVIRONMENT = {
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",  # verl's name for the table that has the FSDP engine
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONUNBUFFERED": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_COLOR_PREFIX": "0",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    options, overrides = parse(arguments)
    assets = (options.assets or ASSETS_ROOT / options.model).absolute()
    log = (options.log or LOG_ROOT / time.strftime("train-%Y%m%d-%H%M%S.log")).absolute()
    signal.signal(signal.SIGTERM, interrupt)
    try:
        code = ensure_assets(options.model, assets)
        code = code or train(assets, log, overrides)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return code or summarize(dump_directory(overrides))


def parse(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """Return the options of this command, and everything else: Hydra's overrides and flags."""
    parser = argparse.ArgumentParser(
        prog="python -m verl_rollout_dump.verl_cpu.train",
        description="Train with verl on the CPU. Whatever is not listed here goes to verl: Hydra overrides, -m, --cfg.",
        allow_abbrev=False,
    )
    parser.add_argument("--model", choices=sorted(MODELS), default="smollm2")
    parser.add_argument("--assets", type=Path, metavar="DIR", help=f"model and data (default: {ASSETS_ROOT}/MODEL)")
    parser.add_argument("--log", type=Path, metavar="FILE", help=f"verl's output (default: a new file in {LOG_ROOT})")
    return parser.parse_known_args(arguments)


def ensure_assets(model: str, assets: Path) -> int:
    """Make the model and data unless they are there; in a process of its own, which gives its memory back."""
    if (assets / "assets.json").is_file() and is_prepared(model, assets):
        return 0
    command = ["verl_rollout_dump.verl_cpu.prepare", "--model", model, "--out", str(assets)]
    return subprocess.run([sys.executable, "-m", *command], check=False).returncode


def train(assets: Path, log: Path, overrides: Sequence[str]) -> int:
    """Run verl, show its progress, and return its exit code."""
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    print(f"training with verl on {core_count()} cores; its output goes to {log}", flush=True)
    with (
        log.open("w", encoding="utf-8") as log_file,
        ray_directory() as ray_dir,
        running(command_line(overrides), environment(os.environ, assets, ray_dir)) as process,
    ):
        follow(process.stdout or (), log_file)
        code = process.wait()
    print(f"verl ended after {time.monotonic() - start:.0f} s", flush=True)
    if code != 0:
        tell_failure(log, code)
    return code


def tell_failure(log: Path, code: int) -> None:
    """Print the end of the log and, as the last lines, what was raised in any of verl's processes."""
    output = log.read_text(encoding="utf-8")
    raised = causes(output)
    lines = [telling_tail(output, TAIL_LINES)]
    lines += ["", "what was raised, the first first:", *raised] if raised else []
    print("\n".join([*lines, f"verl ended with exit code {code}; its whole output: {log}"]), file=sys.stderr)


def command_line(overrides: Sequence[str]) -> list[str]:
    """Return the command that trains. Another --config-name among the overrides replaces ours."""
    named = any(word.startswith("--config-name") or word == "-cn" for word in overrides)
    config = [] if named else ["--config-name", "verl_cpu"]
    return [sys.executable, "-m", "verl.trainer.main_ppo", *config, *overrides]


def environment(base: Mapping[str, str], assets: Path, ray_dir: str) -> dict[str, str]:
    """Return the environment that verl and Ray's processes run in: `base`, and what they need."""
    return {
        "OMP_NUM_THREADS": str(core_count()),  # Ray would give each process one thread
        # By default idle threads spin for milliseconds: many times slower as soon as anything else wants a core.
        "GOMP_SPINCOUNT": "3000",
        **base,
        **FIXED_ENVIRONMENT,
        "VERL_CPU_ASSETS": str(assets),
        "VERL_CPU_RAY_DIR": ray_dir,
    }


def core_count() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def ray_directory() -> Iterator[str]:
    """Give Ray a directory of its own, with a short name: it holds sockets, whose paths end at 107 bytes."""
    path = tempfile.mkdtemp(prefix="vrd-", dir="/tmp")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def running(command: Sequence[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Start a command in a process group of its own, and end the group if the block is left early."""
    process = subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def follow(output: Iterable[str], log: IO[str]) -> None:
    """Copy the output to the log until it ends, and print progress; a sign of life where it is silent for long."""
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read_lines, args=(output, lines), daemon=True).start()
    reader = ProgressReader()
    start = told = time.monotonic()
    while True:
        try:
            line = lines.get(timeout=1)
        except queue.Empty:
            line = ""
        if line is None:
            return
        log.write(line)
        log.flush()
        text = reader.read(line)
        now = time.monotonic()
        if text is not None or now - told >= HEARTBEAT_SECONDS:
            print(f"[{now - start:4.0f} s] {text or '...'}", flush=True)
            told = now


def _read_lines(output: Iterable[str], lines: queue.Queue[str | None]) -> None:
    for line in output:
        lines.put(line)
    lines.put(None)


def dump_directory(overrides: Sequence[str]) -> Path:
    """Return where the dump is, by the overrides that can say so; the last word counts, as it does for Hydra."""
    said = dict(word.lstrip("+").split("=", 1) for word in overrides if "=" in word)
    for key in ("rollout_dump.path.dir", "trainer.rollout_data_dir"):
        if key in said:
            return Path(said[key].strip("'\"")).absolute()
    return Path(DEFAULT_DUMP).absolute()


def summarize(dump: Path) -> int:
    """Print the summary of the dump; returns the exit code of the command that does it."""
    return subprocess.run([sys.executable, "-m", "verl_rollout_dump.cli", "summary", str(dump)], check=False).returncode


def interrupt(signum: int, frame: object) -> None:
    """Take a signal as if it were Ctrl-C, so that what was started is ended."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
