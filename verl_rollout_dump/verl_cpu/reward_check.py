"""Call a reward function on a few questions, without training, and say what of its values would be lost.

    python -m verl_rollout_dump.verl_cpu.reward_check --config-name ci [hydra overrides of verl ...]

The config names the reward function, the questions and the rules. Looked for is what a training would find after a
minute, and what it would not name: verl pickles what a reward function returns to send it between its processes,
and a value that cannot be pickled ends in another error, far away from the function.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from verl_rollout_dump.batch.columns import columns_of
from verl_rollout_dump.config import load_config
from verl_rollout_dump.config.schema import SerializationConfig
from verl_rollout_dump.serialization import ConversionReport, Serializer
from verl_rollout_dump.serialization.type_names import type_name
from verl_rollout_dump.serialization.values import ConversionError
from verl_rollout_dump.verl_cpu.ci import lossy_warnings

QUESTIONS = 4
ADVICE = "return numbers, text, lists and dicts"
# verl loads a file under a name that nobody knows.
LOADED_FILE = re.compile(r"\bcustom_module_-?\d+\.")

Reward = Callable[..., Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m verl_rollout_dump.verl_cpu.reward_check", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--config-name", default="ci")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides of verl")
    options = parser.parse_args(arguments)
    config = composed(options.config_name, options.overrides)
    reward = loaded_reward(config)
    if reward is None:
        print("no custom reward function is configured: nothing to call before the training")
        return 0
    results = call(reward, questions(config))
    problems = problems_of(results, load_config({"serialization": config.rollout_dump.serialization}).serialization)
    if not problems:
        print(f"the reward function returns {', '.join(columns_of(results))}: all of it can be written")
        return 0
    print("the reward function returns what would be lost:", file=sys.stderr)
    print("\n".join(f"  {LOADED_FILE.sub('', problem)}" for problem in problems), file=sys.stderr)
    return 1


def composed(config_name: str, overrides: Sequence[str]) -> Any:
    """Return the config as verl's own entry point composes it; our plugin puts conf/ on the search path."""
    import verl  # noqa: F401  (loads the plugin)
    from hydra import compose, initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose(config_name, overrides=list(overrides))


def loaded_reward(config: Any) -> Reward | None:
    """Return the reward function as verl loads it; None: there is none, or verl calls it another way."""
    from verl.trainer.ppo.reward import get_custom_reward_fn

    if config.reward.reward_manager.source != "register":
        return None
    reward: Reward | None = get_custom_reward_fn(config)
    return reward


def questions(config: Any) -> list[dict[str, Any]]:
    """Return the first questions of the training data."""
    import pyarrow.parquet as pq

    files = config.data.train_files
    rows: list[dict[str, Any]] = pq.read_table(files if isinstance(files, str) else files[0]).to_pylist()
    return rows[:QUESTIONS]


def call(reward: Reward, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Score two responses to each question, the ground truth and no text at all, as verl's reward manager does."""
    results = []
    for row in rows:
        truth = row["reward_model"]["ground_truth"]
        for response in (str(truth), ""):
            result = reward(
                data_source=row["data_source"],
                solution_str=response,
                ground_truth=truth,
                extra_info=dict(row.get("extra_info") or {}),
            )
            if inspect.isawaitable(result):
                result = asyncio.run(awaited(result))
            results.append(result if isinstance(result, dict) else {"score": result})
    return results


async def awaited(result: Any) -> Any:
    """Return what an asynchronous reward function returns."""
    return await result


def problems_of(results: Sequence[dict[str, Any]], rules: SerializationConfig) -> list[str]:
    """Return a sentence for each field that would be lost: which key, which type, what to return instead."""
    problems = [] if all("score" in result for result in results) else ["field 'score' is missing; verl needs it"]
    serializer = Serializer(rules)
    for name, values in columns_of(results).items():
        report = ConversionReport()
        try:
            serializer.convert_column(str(name), values, report)
        except ConversionError as error:
            problems.append(str(error))
            continue
        problems += lossy_warnings(report.as_list()) or unpicklable(name, values)
    return problems


def unpicklable(name: Any, values: Sequence[Any]) -> list[str]:
    """Return a sentence where verl cannot send the values of a field between its processes."""
    for record, value in enumerate(values):
        try:
            pickle.dumps(value)
        except Exception as error:
            kind = type_name(type(value))
            said = f"field {name!r}, record {record}: verl cannot send it between its processes ({kind}: {error})"
            return [f"{said}; {ADVICE}"]
    return []


if __name__ == "__main__":
    sys.exit(main())
