"""Call a reward function on a few questions, without training, and name what a training with it would lose or refuse.

    python -m verl_rollout_dump.verl_cpu.reward_check --config-name ci [hydra overrides of verl ...]

The config names the reward function, the questions and the rules. This takes seconds; a training finds the same after
a minute, and often far from the cause (see `reward_problems`). Exit codes: 0, all values arrive; 1, some would not; 2,
the function cannot be loaded or it raises, and the last line names file, line and error.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from verl_rollout_dump.batch.columns import columns_of
from verl_rollout_dump.config import load_config
from verl_rollout_dump.verl_cpu.ci import BROKEN
from verl_rollout_dump.verl_cpu.reward_problems import LOADED_FILE, SCORE_TENSORS, problems_of

_QUESTIONS = 4

_Reward = Callable[..., Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m verl_rollout_dump.verl_cpu.reward_check", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--config-name", default="ci")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides of verl")
    options = parser.parse_args(arguments)
    try:
        return check(_composed(options.config_name, options.overrides))
    except Exception as error:
        traceback.print_exc()
        print(_place_of(error), file=sys.stderr)
        return BROKEN


def check(config: Any) -> int:
    """Call the reward function that a config names and print what is wrong; returns the exit code."""
    reward = _loaded_reward(config)
    if reward is None:
        print("no custom reward function is configured: nothing to call before the training")
        return 0
    results = call(reward, _questions(config))
    rules = load_config({"serialization": config.rollout_dump.serialization}).serialization
    problems = problems_of(results, rules, SCORE_TENSORS[bool(config.trainer.use_v1)])
    if not problems:
        print(f"the reward function returns {', '.join(columns_of(results))}: all of it can be written")
        return 0
    print("the reward function returns what would be lost:", file=sys.stderr)
    print("\n".join(f"  {LOADED_FILE.sub('', problem)}" for problem in problems), file=sys.stderr)
    return 1


def _place_of(error: BaseException) -> str:
    """Return the file, the line and the text of an exception: those of the user's code, as far as it is known."""
    while error.__cause__ is not None:
        error = error.__cause__
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    installed = (str(Path(__file__).parents[1]), "/site-packages/", "<")
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not any(part in frame.filename for part in installed)]
    return f"{own[-1].filename}, line {own[-1].lineno}: {what}" if own else what


def _composed(config_name: str, overrides: Sequence[str]) -> Any:
    """Return the config as verl's own entry point composes it; our plugin puts conf/ on the search path."""
    import verl  # noqa: F401  (loads the plugin)
    from hydra import compose, initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose(config_name, overrides=list(overrides))


def _loaded_reward(config: Any) -> _Reward | None:
    """Return the reward function as verl loads it; None if there is none, or a reward manager of the user calls it."""
    from verl.trainer.ppo.reward import get_custom_reward_fn

    if config.reward.reward_manager.source != "register":
        return None
    reward: _Reward | None = get_custom_reward_fn(config)
    return reward


def _questions(config: Any) -> list[dict[str, Any]]:
    """Return the first questions of the training data."""
    import pyarrow.parquet as pq

    files = config.data.train_files
    rows: list[dict[str, Any]] = pq.read_table(files if isinstance(files, str) else files[0]).to_pylist()
    return rows[:_QUESTIONS]


def call(reward: _Reward, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Score two responses to each question, the ground truth and an empty text, as verl's reward manager does.

    Returns what verl makes of each result: a dict as it is, anything else as `score` and `acc`.
    """
    results = []
    for row in rows:
        truth = row["reward_model"]["ground_truth"]
        for response in (str(truth), ""):
            extra_info = {**(row.get("extra_info") or {}), "num_turns": 2, "rollout_reward_scores": {}}
            result = reward(
                data_source=row["data_source"], solution_str=response, ground_truth=truth, extra_info=extra_info
            )
            if inspect.iscoroutinefunction(reward):
                result = asyncio.run(result)
            results.append(result if isinstance(result, dict) else {"score": result, "acc": result})
    return results


if __name__ == "__main__":
    sys.exit(main())
