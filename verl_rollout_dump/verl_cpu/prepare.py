"""Make the folder that a training on a CPU needs: a model and questions, once.

    python -m verl_rollout_dump.verl_cpu.prepare --model smollm2|tiny --out DIR

    DIR/model/         a Hugging Face folder
    DIR/train.parquet  arithmetic questions in verl's data format
    DIR/val.parquet
    DIR/assets.json    which model this is; written last

DIR appears under its name only when it is complete. If it exists already, nothing is done.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from verl_rollout_dump.verl_cpu import arithmetic, models

# Increase it when the content changes: folders made by an older version are then made again.
ASSETS_VERSION = 1
_ASSETS_FILE = "assets.json"

# Settings of Hugging Face's libraries, read when they are imported: no downloads, no progress bars.
QUIET_AND_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TQDM_DISABLE": "1"}


@dataclass(frozen=True)
class ModelChoice:
    """One value of --model."""

    build: Callable[[Path], None]
    description: str


MODELS = {
    "tiny": ModelChoice(models.build_tiny, "a random Qwen2 of 40,000 parameters"),
    "smollm2": ModelChoice(models.convert_smollm2, "SmolLM2-135M-Instruct, converted from GGUF (about 20 s)"),
}


def prepare(model: str, folder: Path) -> Path:
    """Make `folder` with the model of that name (a key of MODELS), unless it exists; return its absolute path.

    Raises ValueError if the folder holds something else.
    """
    folder = folder.absolute()
    if is_prepared(model, folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.partial-", dir=folder.parent) as partial:
        build = Path(partial) / folder.name
        build.mkdir()
        MODELS[model].build(build / "model")
        arithmetic.write_questions(build)
        (build / _ASSETS_FILE).write_text(json.dumps(_identity(model)) + "\n")
        _put_in_place(build, folder, Path(partial) / "replaced")
    return folder


def is_prepared(model: str, folder: Path) -> bool:
    """Return whether `folder` holds this model, complete and as this version makes it."""
    marker = folder / _ASSETS_FILE
    if not marker.is_file():
        if folder.is_dir() and any(folder.iterdir()):
            raise ValueError(
                f"{folder} is not empty and was not made by this command (it has no {_ASSETS_FILE}). "
                "Name another folder, or remove it."
            )
        return False
    found = json.loads(marker.read_text())
    if found.get("model") != model:
        raise ValueError(f"{folder} holds the model {found.get('model')!r}, not {model!r}. Name another folder.")
    return bool(found == _identity(model))


def _identity(model: str) -> dict[str, object]:
    return {"model": model, "assets_version": ASSETS_VERSION}


def _put_in_place(build: Path, folder: Path, replaced: Path) -> None:
    """Rename `build` to `folder`; an older version or empty folder there moves to `replaced`."""
    if folder.exists():
        folder.rename(replaced)
    try:
        build.rename(folder)
    except OSError:
        # another process was faster; its folder is the same as ours
        if not (folder / _ASSETS_FILE).is_file():
            raise
    shutil.rmtree(replaced, ignore_errors=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m verl_rollout_dump.verl_cpu.prepare", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--model", choices=sorted(MODELS), required=True)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to make")
    options = parser.parse_args(arguments)
    os.environ.update(QUIET_AND_OFFLINE)
    try:
        return _report(options.model, options.out)
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _report(model: str, folder: Path) -> int:
    if is_prepared(model, folder):
        print(f"{folder}: the model {model} exists already")
        return 0
    print(f"{folder}: making {MODELS[model].description} ...", flush=True)
    start = time.monotonic()
    prepare(model, folder)
    print(f"{folder}: ready after {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
