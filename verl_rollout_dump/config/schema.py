"""The schema of the `rollout_dump` node (what Hydra calls structured configs).

The one place where defaults stand in code; `conf/rollout_dump/` shows the same to Hydra users, and a test keeps
the two equal. The members of an enum are named as they stand in the config.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

# The fields that `fields.trainer` can name, over all trainers.
TRAINER_FIELDS = (
    "data_source",
    "num_turns",
    "response_length",
    "min_global_steps",
    "max_global_steps",
    "raw_prompt",
)

OnError = Enum("OnError", ["warn", "raise"])  # written as a call since `raise` is a keyword
OnError.__doc__ = "What a failed dump does to the training."


class Existing(Enum):
    """What happens to a file of the same step that an earlier attempt wrote."""

    supersede = "supersede"
    error = "error"
    overwrite = "overwrite"


class Strategy(Enum):
    """How values become JSON: see `verl_rollout_dump.serialization`."""

    early_convert = "early_convert"
    str_fallback = "str_fallback"


class Unknown(Enum):
    """What stands in for a value that no rule knows."""

    marker = "marker"
    str = "str"
    error = "error"


class NonFinite(Enum):
    """What stands in for NaN and the infinities, which JSON has not."""

    null = "null"
    string = "string"
    error = "error"


class Mismatch(Enum):
    """What a column of the wrong length, or a whitelisted name that never comes, does."""

    warn = "warn"
    error = "error"


class Mode(Enum):
    """Where the dump is decoded, encoded and written."""

    background = "background"
    inline = "inline"
    ray = "ray"


class WhenFull(Enum):
    """What a batch does that finds the queue full."""

    block = "block"
    drop = "drop"
    error = "error"


class Compression(Enum):
    """Whether step files are compressed, and how."""

    zstd = "zstd"
    gzip = "gzip"


@dataclass
class PathConfig:
    """Where the files go."""

    # The directory of training rollouts; null: what trainer.rollout_data_dir says, else no dump.
    dir: str | None = None
    # The directory of validation rollouts; null: what trainer.validation_data_dir says, else none.
    validation_dir: str | None = None
    # The name of a step's file. {step} is the step; verl's viewer wants a plain number before .jsonl.
    filename: str = "{step}.jsonl"
    # A file of the same step is there: supersede | error | overwrite.
    existing: Existing = Existing.supersede


@dataclass
class SerializationConfig:
    """How values become JSON."""

    # early_convert: native JSON types, recursively; str_fallback: str() of what JSON does not know.
    strategy: Strategy = Strategy.early_convert
    # A value that no rule knows: marker | str | error.
    unknown: Unknown = Unknown.marker
    # NaN and the infinities: null | string | error.
    non_finite: NonFinite = NonFinite.null
    # Containers nested deeper than this end in a marker. 1 to 200.
    max_depth: int = 64
    # Strings longer than this many characters end in a marker with the true length; null: never.
    max_chars: int | None = None
    # Arrays and containers of more elements than this end in a marker with the true size; null: never.
    max_elements: int | None = None


@dataclass
class FieldsConfig:
    """Which fields a record has."""

    # The whitelist: names or globs, in the order given.
    include: list[str] = field(default_factory=lambda: ["*"])
    # Taken out again: names or globs.
    exclude: list[str] = field(default_factory=list)
    # Whether prompt_ids, response_ids and rollout_log_probs are written.
    tokens: bool = False
    # What the trainer knows besides, names or globs: data_source, num_turns, response_length, min_global_steps,
    # max_global_steps (the first and last version of the weights that generated it), raw_prompt (the messages).
    trainer: list[str] = field(default_factory=list)
    # A column of another length than the batch: warn | error.
    on_mismatch: Mismatch = Mismatch.warn
    # A whitelisted name that the batch does not have: warn | error.
    on_missing: Mismatch = Mismatch.warn


@dataclass
class SamplingConfig:
    """Which rollouts are written."""

    # Only every n-th step.
    every_n_steps: int = 1
    # At most so many records a step, chosen by a stable hash; null: all.
    max_records: int | None = None


@dataclass
class WriterConfig:
    """How the files are written."""

    # background: a thread; inline: on the caller's thread; ray: `shards` Ray actors, each with such a thread.
    mode: Mode = Mode.background
    # Batches that may wait in the queue, and their bytes of memory; a batch larger than that waits alone.
    max_pending: int = 4
    max_pending_bytes: int = 4_000_000_000
    # The queue is full: block | drop | error.
    when_full: WhenFull = WhenFull.block
    # A step that a failing disk refuses is tried again for so many seconds, while the queue has room.
    retry_seconds: int = 30
    # No wait (for room in the queue, for the last step at the end) is longer than so many seconds.
    timeout_seconds: int = 600
    # How many writers share the dump, and which of them this one is, from 0 on: each has a folder of its own.
    shards: int = 1
    shard: int = 0
    # Where steps wait for a remote store (path.dir is a URL); null: below the user's cache directory.
    spool_dir: str | None = None
    # Flush file and folder to the device before a step counts as written.
    fsync: bool = False
    # null | zstd | gzip
    compression: Compression | None = None
    # Leave special tokens out of the decoded text, as verl does.
    skip_special_tokens: bool = True


@dataclass
class DumpConfig:
    """The whole `rollout_dump` node."""

    enabled: bool = True
    # What a failed dump does to the training: warn | raise.
    on_error: OnError = OnError.warn
    # Entry points of the group verl_rollout_dump.callbacks that run in the trainer.
    callbacks: list[str] = field(default_factory=lambda: ["dump"])
    path: PathConfig = field(default_factory=PathConfig)
    serialization: SerializationConfig = field(default_factory=SerializationConfig)
    fields: FieldsConfig = field(default_factory=FieldsConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    writer: WriterConfig = field(default_factory=WriterConfig)
