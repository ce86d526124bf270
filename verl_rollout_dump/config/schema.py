"""The schema of the `rollout_dump` node (what Hydra calls structured configs).

The defaults stand here and, for Hydra users, in `conf/rollout_dump/`; a test keeps the two equal. The members of an
enum have the names that users write in the config.
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
OnError.__doc__ = "What happens to the training if a dump fails."


class Existing(Enum):
    """What happens to a file of the same step that an earlier attempt wrote."""

    supersede = "supersede"
    error = "error"
    overwrite = "overwrite"


class Leftovers(Enum):
    """What happens to files of earlier attempts, of steps that a shorter rerun did not reach."""

    keep = "keep"
    supersede = "supersede"


class Strategy(Enum):
    """How values become JSON: see `verl_rollout_dump.serialization`."""

    early_convert = "early_convert"
    str_fallback = "str_fallback"


class Unknown(Enum):
    """What is written in place of a value that no rule knows."""

    marker = "marker"
    str = "str"
    error = "error"


class NonFinite(Enum):
    """What is written in place of NaN and the infinities, which JSON does not have."""

    null = "null"
    string = "string"
    error = "error"


class Mismatch(Enum):
    """What happens if a column has the wrong length, or a batch lacks a whitelisted field."""

    warn = "warn"
    error = "error"


class Mode(Enum):
    """Which thread or process decodes, encodes and writes the dump."""

    background = "background"
    inline = "inline"
    ray = "ray"


class WhenFull(Enum):
    """What happens to a batch if the queue is full."""

    block = "block"
    drop = "drop"
    error = "error"


class Compression(Enum):
    """Whether step files are compressed, and how."""

    zstd = "zstd"
    gzip = "gzip"


@dataclass
class PathConfig:
    """Directories and file names."""

    # The directory of training rollouts. null: that of trainer.rollout_data_dir, if it is set.
    dir: str | None = None
    # The directory of validation rollouts. null: that of trainer.validation_data_dir, if it is set.
    validation_dir: str | None = None
    # The name of a step's file. {step} is the step; verl's viewer needs a plain number before .jsonl.
    filename: str = "{step}.jsonl"
    # What to do with an older file of the same step: supersede | error | overwrite.
    existing: Existing = Existing.supersede
    # The attempt ends, and files of superseded steps that it did not reach are left: keep | supersede.
    leftovers: Leftovers = Leftovers.keep


@dataclass
class SerializationConfig:
    """How values become JSON."""

    # early_convert: native JSON types, recursively; str_fallback: str() of what JSON does not know.
    strategy: Strategy = Strategy.early_convert
    # What to write for a value that no rule knows: marker | str | error.
    unknown: Unknown = Unknown.marker
    # What to write for NaN and the infinities: null | string | error.
    non_finite: NonFinite = NonFinite.null
    # Containers nested deeper than this are replaced by a marker. 1 to 200.
    max_depth: int = 64
    # Longer strings (in characters) are replaced by a marker with the true length. null: no limit.
    max_chars: int | None = None
    # Larger arrays and containers (in elements) are replaced by a marker with the true size. null: no limit.
    max_elements: int | None = None


@dataclass
class FieldsConfig:
    """Which fields a record has."""

    # The whitelist: names or globs, in the order given.
    include: list[str] = field(default_factory=lambda: ["*"])
    # Fields that are left out although they are included: names or globs.
    exclude: list[str] = field(default_factory=list)
    # Whether prompt_ids, response_ids and rollout_log_probs are written.
    tokens: bool = False
    # More fields that the trainer knows, names or globs: data_source, num_turns, response_length, min_global_steps,
    # max_global_steps (the first and last version of the weights that generated it), raw_prompt (the messages).
    trainer: list[str] = field(default_factory=list)
    # If a column has another length than the batch: warn | error.
    on_mismatch: Mismatch = Mismatch.warn
    # If a batch lacks a whitelisted field: warn | error.
    on_missing: Mismatch = Mismatch.warn


@dataclass
class SamplingConfig:
    """Which rollouts are written."""

    # Only every n-th step.
    every_n_steps: int = 1
    # The most records per step, chosen by a stable hash. null: all.
    max_records: int | None = None


@dataclass
class WriterConfig:
    """How the files are written."""

    # background: a thread; inline: the thread of the caller; ray: `shards` Ray actors, each with its own thread.
    mode: Mode = Mode.background
    # The most batches in the queue, and their most bytes of memory. A batch larger than that waits alone.
    max_pending: int = 4
    max_pending_bytes: int = 4_000_000_000
    # What happens to a batch if the queue is full: block | drop | error.
    when_full: WhenFull = WhenFull.block
    # How long, in seconds, a failed write is tried again while the queue has room.
    retry_seconds: int = 30
    # The longest wait, in seconds, for room in the queue and for the last step at the end.
    timeout_seconds: int = 600
    # How many writers share the dump, and the number of this one, from 0. Each writer has its own folder.
    shards: int = 1
    shard: int = 0
    # Where steps wait for a remote store (path.dir is a URL). null: below the user's cache directory.
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
    # What happens to the training if a dump fails: warn | raise.
    on_error: OnError = OnError.warn
    # Entry points of the group verl_rollout_dump.callbacks that run in the trainer.
    callbacks: list[str] = field(default_factory=lambda: ["dump"])
    path: PathConfig = field(default_factory=PathConfig)
    serialization: SerializationConfig = field(default_factory=SerializationConfig)
    fields: FieldsConfig = field(default_factory=FieldsConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    writer: WriterConfig = field(default_factory=WriterConfig)
