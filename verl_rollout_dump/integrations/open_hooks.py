"""One way to open the hooks of a trainer, for every trainer that is adapted."""

from __future__ import annotations

from typing import Any

from verl_rollout_dump.config import DumpConfig
from verl_rollout_dump.dump.callback import RolloutDumpCallback
from verl_rollout_dump.hooks import DUMP, RolloutHooks, build_callbacks


def open_hooks(config: DumpConfig, tokenizer: Any = None) -> RolloutHooks:
    """Build the callbacks that a config names, the dump first, and return the hooks that reach them.

    `tokenizer` turns token ids into text; a trainer that makes its tokenizer later calls `RolloutHooks.set_tokenizer`
    before the first batch. Raises `ConfigError` for an unknown callback, and `DumpError` if a directory cannot be used.
    """
    others = build_callbacks(config.callbacks)
    dump = [RolloutDumpCallback.from_config(config, tokenizer)] if DUMP in config.callbacks else []
    hooks = RolloutHooks([*dump, *others])
    hooks.set_tokenizer(tokenizer)
    return hooks
