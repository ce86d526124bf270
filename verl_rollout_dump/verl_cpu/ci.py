"""Check that no value of a reward function is lost: two real steps of verl on the CPU, with the strict conf/ci.yaml.

    python -m verl_rollout_dump.verl_cpu.ci REWARD.py [--function compute_score] [hydra overrides of verl ...]

The function is called on a few questions first, which takes seconds and finds most mistakes. Then verl trains with it,
and the report of the dump is read. The exit code is 0 only if nothing was lost; otherwise the last lines say what is
wrong: which key, which type, what to return instead. The dump and the log stay in `outputs/ci`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from verl_rollout_dump.serialization.table import RULES
from verl_rollout_dump.storage.step_files import RUN_RECORD
from verl_rollout_dump.verl_cpu.prepare import MODELS
from verl_rollout_dump.verl_cpu.train import ASSETS_ROOT, INTERRUPTED, ensure_assets, environment, interrupt, train

_CONFIG = "ci"
_OUTPUT_ROOT = Path("outputs/ci")
_PACKAGE = "pkg://"
BROKEN = 2  # the exit code of reward_check if the reward function cannot be loaded, or raises
# Lossy rules (another type is read back) that keep the whole value.
_VALUE_IS_THERE = {"key_to_text", "key_collision", "reserved_key", "non_finite_string"}
_RULE_OF = {rule.name: rule for rule in RULES}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    options, overrides = parse(arguments)
    assets = (ASSETS_ROOT / options.model).absolute()
    folder = (options.out or _OUTPUT_ROOT / time.strftime("%Y%m%d-%H%M%S")).absolute()
    words = [*reward_overrides(options.reward, options.function), *overrides]
    signal.signal(signal.SIGTERM, interrupt)
    try:
        code = ensure_assets(options.model, assets) or _check_reward(assets, words)
        code = code or train(assets, folder / "verl.log", ["--config-name", _CONFIG, *words, _dumped_to(folder)])
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    code = code or judge(folder / "rollouts")
    if code == BROKEN:  # the last line on the screen is the error of the reward function
        return code
    print("failed" if code else f"passed: no value was lost; the dump is in {folder / 'rollouts'}", flush=True)
    return code


def parse(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """Return the options of this command, and the overrides of verl."""
    parser = argparse.ArgumentParser(
        prog="python -m verl_rollout_dump.verl_cpu.ci", description=__doc__.split("\n")[0], allow_abbrev=False
    )
    parser.add_argument("reward", metavar="REWARD", help="file of the reward function, or pkg://package.module")
    parser.add_argument("--function", default="compute_score", help="its name (default: compute_score)")
    parser.add_argument("--model", choices=sorted(MODELS), default="tiny")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help=f"dump and log (default: a new folder in {_OUTPUT_ROOT})"
    )
    parser.add_argument("overrides", nargs="*", help="Hydra overrides of verl, such as data.train_files=FILE.parquet")
    options = parser.parse_intermixed_args(arguments)
    if not options.reward.startswith(_PACKAGE) and not Path(options.reward).is_file():
        parser.error(f"there is no file {options.reward}")
    return options, options.overrides


def reward_overrides(reward: str, function: str) -> list[str]:
    """Return the overrides that select a reward function; its path is absolute, since Ray's processes run elsewhere."""
    path = reward if reward.startswith(_PACKAGE) else str(Path(reward).absolute())
    return [f"reward.custom_reward_function.path={_quoted(path)}", f"reward.custom_reward_function.name={function}"]


def _dumped_to(folder: Path) -> str:
    """Return the override that makes verl dump into a folder."""
    return f"trainer.rollout_data_dir={_quoted(str(folder / 'rollouts'))}"


def _quoted(text: str) -> str:
    """Return text quoted for Hydra."""
    escaped = text.replace("'", "\\'")
    return f"'{escaped}'"


def _check_reward(assets: Path, overrides: Sequence[str]) -> int:
    """Call the reward function in a separate process, without training; returns the exit code of `reward_check`."""
    print("calling the reward function on a few questions", flush=True)
    command = [sys.executable, "-m", "verl_rollout_dump.verl_cpu.reward_check", "--config-name", _CONFIG, *overrides]
    return subprocess.run(command, env=environment(os.environ, assets, ""), check=False).returncode


def judge(dump: Path) -> int:
    """Print what a dump lost; returns the exit code."""
    try:
        losses = losses_of(dump)
    except OSError as error:
        losses = [f"there is no dump to judge: {error}"]
    if losses:
        print("values were lost:", file=sys.stderr)
        print("\n".join(f"  {loss}" for loss in losses), file=sys.stderr)
    return 1 if losses else 0


def _advice_of(name: str) -> str:
    """Return what a rule writes, and what to return instead."""
    rule = _RULE_OF.get(name)
    return (
        f"the rule {name!r} that was registered for it" if rule is None else f"{rule.output} ({name}); {rule.instead}"
    )


def lossy_warnings(conversions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each kind of loss among the conversions of a report."""
    return [
        f"field {found['field']!r}{' at ' + found['path'] if found['path'] else ''}, record {found['first_record']}: "
        f"{found['count']} x {found['type']} would be written as {_advice_of(found['rule'])}"
        for found in conversions
        if found["lossy"] and found["rule"] not in _VALUE_IS_THERE
    ]


def losses_of(dump: Path) -> list[str]:
    """Return a sentence for each loss of the last attempt that wrote a dump; none: every value is there.

    Raises OSError where there is no dump.
    """
    record = json.loads((dump / RUN_RECORD).read_bytes())
    report = record["report"]
    losses = lossy_warnings(report["conversions"])
    losses += [f"{what}, {count} times" for what, count in {**report["fields"], **report["failures"]}.items()]
    losses += [f"step {step} is missing" for step in [*report["steps_failed"], *report["steps_dropped"]]]
    if record["state"] != "complete":
        losses.append(f"the dump is {record['state']}, not complete")
    if not report["records_written"]:
        losses.append("not one rollout was written")
    return losses


if __name__ == "__main__":
    sys.exit(main())
