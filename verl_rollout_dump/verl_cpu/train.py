"""Run a real training of verl on this machine's CPU, and show its progress.

    python -m verl_rollout_dump.verl_cpu.train [--model smollm2|tiny] [hydra overrides of verl ...]

Starts `python -m verl.trainer.main_ppo --config-name verl_cpu` with the environment that it needs. verl's own output
goes to a log file. The terminal shows a line for each phase and step, then a summary of each dump; if the training
fails, the end of the log and the exceptions in it. The exit code is verl's.
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

from verl_rollout_dump.config.announcement import announced_directories
from verl_rollout_dump.config.urls import is_url
from verl_rollout_dump.verl_cpu.failure import causes
from verl_rollout_dump.verl_cpu.prepare import MODELS, is_prepared
from verl_rollout_dump.verl_cpu.progress import ProgressReader, informative_tail

_PRINTING_FLAGS = ("--cfg", "-c", "--info", "-i", "--hydra-help", "--version")  # Hydra prints something, and ends
ASSETS_ROOT = Path(".cache/verl_cpu")
_LOG_ROOT = Path("outputs/logs")
_HEARTBEAT_SECONDS = 15
_TAIL_LINES = 40
_ENDING_SECONDS = 40  # for verl to end after Ctrl-C: the rollouts that wait are written within 24
INTERRUPTED = 130  # the exit code of a program that Ctrl-C ended

# What a training on a CPU needs; it takes precedence over the caller's environment.
_FIXED_ENVIRONMENT = {
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
    log = (options.log or _LOG_ROOT / time.strftime("train-%Y%m%d-%H%M%S.log")).absolute()
    signal.signal(signal.SIGTERM, interrupt)
    try:
        code = ensure_assets(options.model, assets)
        if code or prints_only(overrides):
            return code or _run_hydra(assets, overrides)
        code = train(assets, log, overrides)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    if code == 0:
        _summarize(log)
    return code


def parse(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """Return the options of this command, and everything else: Hydra's overrides and flags."""
    parser = argparse.ArgumentParser(
        prog="python -m verl_rollout_dump.verl_cpu.train",
        description="Train with verl on the CPU. Whatever is not listed here goes to verl: Hydra overrides, -m, --cfg.",
        allow_abbrev=False,
    )
    parser.add_argument("--model", choices=sorted(MODELS), default="smollm2")
    parser.add_argument("--assets", type=Path, metavar="DIR", help=f"model and data (default: {ASSETS_ROOT}/MODEL)")
    parser.add_argument("--log", type=Path, metavar="FILE", help=f"verl's output (default: a new file in {_LOG_ROOT})")
    return parser.parse_known_args(arguments)


def ensure_assets(model: str, assets: Path) -> int:
    """Make the model and data unless they exist, in a separate process, whose memory is freed when it ends."""
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
        _running(command_line(overrides), environment(os.environ, assets, ray_dir)) as process,
    ):
        _follow(process.stdout or (), log_file)
        code = process.wait()
    print(f"verl ended after {time.monotonic() - start:.0f} s", flush=True)
    if code != 0:
        _report_failure(log, code)
    return code


def _report_failure(log: Path, code: int) -> None:
    """Print the end of the log and, as the last lines, what was raised in any of verl's processes."""
    output = log.read_text(encoding="utf-8")
    raised = causes(output)
    lines = [informative_tail(output, _TAIL_LINES)]
    lines += ["", "what was raised, in order:", *raised] if raised else []
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
        **_FIXED_ENVIRONMENT,
        "VERL_CPU_ASSETS": str(assets),
        "VERL_CPU_RAY_DIR": ray_dir,
    }


def core_count() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def ray_directory() -> Iterator[str]:
    """Make a directory for Ray with a short name: it holds sockets, whose paths have at most 107 bytes."""
    path = tempfile.mkdtemp(prefix="vrd-", dir="/tmp")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _running(command: Sequence[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Start a command in its own process group, and end the group if the block is left early."""
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
                process.wait(timeout=_ENDING_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _follow(output: Iterable[str], log: IO[str]) -> None:
    """Copy the output to the log until it ends, and print progress, or dots if nothing happens for long."""
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read_lines, args=(output, lines), daemon=True).start()
    reader = ProgressReader()
    start = shown = time.monotonic()
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
        if text is not None or now - shown >= _HEARTBEAT_SECONDS:
            print(f"[{now - start:4.0f} s] {text or '...'}", flush=True)
            shown = now


def _read_lines(output: Iterable[str], lines: queue.Queue[str | None]) -> None:
    for line in output:
        lines.put(line)
    lines.put(None)


def prints_only(overrides: Sequence[str]) -> bool:
    """Return whether Hydra prints something for these flags, such as the config, and trains nothing."""
    return any(word.partition("=")[0] in _PRINTING_FLAGS for word in overrides)


def _run_hydra(assets: Path, overrides: Sequence[str]) -> int:
    """Run verl's config app on this terminal; returns its exit code."""
    return subprocess.run(command_line(overrides), env=environment(os.environ, assets, ""), check=False).returncode


def _summarize(log: Path) -> None:
    """Print a summary of each dump that the output of a training announces: one, or one for each job of a sweep."""
    for directory in announced_directories(log.read_text(encoding="utf-8").splitlines()):
        print(f"\n{directory}", flush=True)
        if not is_url(directory):
            subprocess.run([sys.executable, "-m", "verl_rollout_dump.cli", "summary", directory], check=False)


def interrupt(signum: int, frame: object) -> None:
    """Treat a signal as Ctrl-C, so that the training that was started is ended too."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
