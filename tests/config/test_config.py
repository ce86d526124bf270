"""The node: its defaults, and what is said of every mistake."""

import pickle
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from verl_rollout_dump import ConfigError, load_config
from verl_rollout_dump.config import DumpConfig, validation
from verl_rollout_dump.config.resolved import as_container, write_resolved
from verl_rollout_dump.config.schema import Compression, NonFinite, OnError, Strategy

SELECT = "${oc.select:trainer.rollout_data_dir,null}"
CONTRACT = {
    "enabled": True,
    "on_error": "warn",
    "callbacks": ["dump"],
    "path": {
        "dir": None,
        "validation_dir": None,
        "filename": "{step}.jsonl",
        "existing": "supersede",
        "leftovers": "keep",
    },
    "serialization": {
        "strategy": "early_convert",
        "unknown": "marker",
        "non_finite": "null",
        "max_depth": 64,
        "max_chars": None,
        "max_elements": None,
    },
    "fields": {
        "include": ["*"],
        "exclude": [],
        "tokens": False,
        "trainer": [],
        "on_mismatch": "warn",
        "on_missing": "warn",
    },
    "sampling": {"every_n_steps": 1, "max_records": None},
    "writer": {
        "mode": "background",
        "max_pending": 4,
        "max_pending_bytes": 4_000_000_000,
        "when_full": "block",
        "retry_seconds": 30,
        "timeout_seconds": 600,
        "shards": 1,
        "shard": 0,
        "spool_dir": None,
        "fsync": False,
        "compression": None,
        "skip_special_tokens": True,
    },
}


def test_the_defaults_are_those_of_the_contract():
    assert as_container(load_config()) == CONTRACT
    assert load_config({}) == load_config(None) == DumpConfig() == load_config(DumpConfig())


def test_any_part_of_the_node_may_be_given():
    config = load_config({"path": {"dir": Path("out")}, "serialization": {"strategy": "str_fallback"}})
    assert config.path.dir == "out"
    assert config.serialization.strategy is Strategy.str_fallback
    assert config.serialization.max_depth == 64


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"on_error": "raise"}, lambda c: c.on_error is OnError["raise"]),
        ({"serialization": {"non_finite": None}}, lambda c: c.serialization.non_finite is NonFinite.null),
        ({"writer": {"compression": "null"}}, lambda c: c.writer.compression is None),
        ({"writer": {"compression": "zstd"}}, lambda c: c.writer.compression is Compression.zstd),
        ({"sampling": {"max_records": "16"}}, lambda c: c.sampling.max_records == 16),
        ({"writer": {"fsync": "true"}}, lambda c: c.writer.fsync is True),
        ({"path": {"filename": "step{step:06d}.jsonl"}}, lambda c: c.path.filename == "step{step:06d}.jsonl"),
        ({"fields": {"exclude": ["a?"], "include": ["a*"]}}, lambda c: c.fields.exclude == ["a?"]),
        ({"fields": {"trainer": ["*_global_steps"]}}, lambda c: c.fields.trainer == ["*_global_steps"]),
    ],
)
def test_values_as_a_command_line_gives_them(given, expected):
    assert expected(load_config(given))


def test_verls_own_keys_say_where():
    whole = {"trainer": {"rollout_data_dir": "train", "validation_data_dir": "val"}}
    assert (load_config(whole).path.dir, load_config(whole).path.validation_dir) == ("train", "val")
    overridden = {**whole, "rollout_dump": {"path": {"dir": "mine"}}}
    assert (load_config(overridden).path.dir, load_config(overridden).path.validation_dir) == ("mine", "val")


@pytest.mark.parametrize("node", [{}, {"rollout_dump": {"path": {"dir": SELECT, "validation_dir": None}}}])
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (["a", "b"], "trainer.rollout_data_dir is ['a', 'b']; expected one directory or URL, or null"),
        ({"a": 1}, "trainer.rollout_data_dir is {'a': 1}; expected one directory or URL, or null"),
        (True, "trainer.rollout_data_dir is True; expected one directory or URL, or null"),
        ("s3:///x", "trainer.rollout_data_dir is 's3:///x'; expected a URL with a bucket, such as s3://bucket/run"),
        (
            "${oc.env:NOPE_NOT_SET}",
            "trainer.rollout_data_dir cannot be resolved: KeyError raised while resolving interpolation: "
            "\"Environment variable 'NOPE_NOT_SET' not found\". Give a plain value, or set what it refers to",
        ),
        (
            "${trainer.nope}",
            "trainer.rollout_data_dir cannot be resolved: Interpolation key 'trainer.nope' not found. Give a plain "
            "value, or set what it refers to",
        ),
    ],
)
def test_a_mistake_is_named_by_the_key_that_the_user_set(node, value, said):
    with pytest.raises(ConfigError) as caught:
        load_config({"trainer": {"rollout_data_dir": value}, **node})
    assert caught.value.problems == [said]


def test_the_trainers_key_does_not_count_where_the_node_has_its_own():
    given = {"trainer": {"rollout_data_dir": "${oc.env:NOPE_NOT_SET}"}, "rollout_dump": {"path": {"dir": "mine"}}}
    assert load_config(given).path.dir == "mine"
    with pytest.raises(ConfigError, match=r"rollout_dump\.path\.dir is \[5\]"):
        load_config({"trainer": {"rollout_data_dir": "a"}, "rollout_dump": {"path": {"dir": [5]}, "x": 1}})


@pytest.mark.parametrize("given", [{"path": {"dir": ""}}, {"trainer": {"rollout_data_dir": ""}}])
def test_an_empty_directory_is_none_as_for_verl(given):
    assert load_config(given).path.dir is None


def test_interpolations_are_resolved_against_the_whole_config():
    whole = OmegaConf.create(
        {
            "trainer": {"rollout_data_dir": "dumps"},
            "run": "a",
            "rollout_dump": {"path": {"dir": "${oc.select:trainer.rollout_data_dir,null}/${run}"}},
        }
    )
    assert load_config(whole).path.dir == "dumps/a"
    assert load_config(whole.rollout_dump).path.dir == "dumps/a"  # a node alone still knows its parents


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": {"dri": "x"}}, "'rollout_dump.path.dri' is not a key. Did you mean 'rollout_dump.path.dir'?"),
        ({"on_eror": "warn"}, "Did you mean 'rollout_dump.on_error'?"),
        (
            {"serialization": {"strategy": "early"}},
            "Unsupported rollout_dump.serialization.strategy 'early'. Supported: early_convert, str_fallback.",
        ),
        ({"writer": {"compression": "lz4"}}, "Supported: null, zstd, gzip."),
        ({"on_error": "ignore"}, "Unsupported rollout_dump.on_error 'ignore'. Supported: warn, raise."),
        ({"serialization": "str_fallback"}, "Did you mean rollout_dump/serialization=str_fallback?"),
        ({"rollout_dump": "default"}, "hydra.searchpath=[pkg://verl_rollout_dump.conf]"),
        ({"rollout_dump": None}, "rollout_dump is null where a node belongs"),
        ({"rollout_dump": {"path": None}}, "rollout_dump.path is null where a node belongs"),
        ({"writer": {"fsync": "maybe"}}, "rollout_dump.writer.fsync is 'maybe'; expected true or false"),
        ({"writer": {"max_pending": 0}}, "rollout_dump.writer.max_pending is 0; expected a whole number of at least 1"),
        ({"serialization": {"max_depth": 1000}}, "expected a whole number from 1 to 200"),
        ({"sampling": {"every_n_steps": None}}, "rollout_dump.sampling.every_n_steps is None; expected a whole number"),
        ({"fields": {"include": "acc"}}, "expected a list of names"),
        ({"path": {"filename": "rollouts.jsonl"}}, "a template with {step} in it"),
        ({"path": {"filename": "../{step}.jsonl"}}, "a plain file name inside the directory"),
        ({"path": {"filename": "/{step}.jsonl"}}, "a plain file name inside the directory"),
        ({"path": {"filename": "{step}-{uid}.jsonl"}}, "a template with {step} as its only placeholder"),
        ({"path": {"filename": "{step}.json"}}, "a name that ends in .jsonl"),
        ({"path": {"filename": "{step}-{step}.jsonl"}}, "a template with {step} in it once"),
        *(
            ({"path": {"filename": f"{{step:{form}}}.jsonl"}}, "{step} or {step:06}: other formats cannot be read back")
            for form in ("x", ",", "_", "+", " ", "b", "5", "<03", ".1f", "c")
        ),
        ({"fields": {"include": []}}, "rollout_dump.fields.include is []; expected at least one name or glob, such as"),
        ({"fields": {"exclude": ["*"]}}, "fields.exclude is ['*']; expected a list that leaves a field of include (*)"),
        (
            {"fields": {"include": ["acc", "score*"], "exclude": ["a*", "s*"]}},
            "fields.exclude is ['a*', 's*']; expected a list that leaves a field of include (acc, score*)",
        ),
        (
            {"fields": {"trainer": ["dataa_source"]}},
            "Unsupported rollout_dump.fields.trainer 'dataa_source'. Supported: data_source, num_turns, "
            "response_length, min_global_steps, max_global_steps, raw_prompt. Did you mean 'data_source'?",
        ),
        ({"fields": {"trainer": ["reward*"]}}, "Unsupported rollout_dump.fields.trainer 'reward*'."),
        ({"path": {"dir": "s4://bucket/run"}}, "a directory, or a URL of a store that fsspec knows (s3://, gs://, "),
        ({"path": {"dir": "s3:///run"}}, "a URL with a bucket, such as s3://bucket/run"),
        ({"writer": {"shards": 4, "shard": 4}}, "writer.shard is 4; expected a number below writer.shards, which is 4"),
        ({"path": {"dir": "${nope}"}}, "rollout_dump.path.dir cannot be resolved: Interpolation key 'nope' not found."),
        ({"path": {"dir": ["a", "b"]}}, "rollout_dump.path.dir is ['a', 'b']; expected one directory or URL, or null"),
        ({"path": {"dir": True}}, "rollout_dump.path.dir is True; expected one directory or URL, or null"),
        ({"path": {"dir": "a\0b"}}, "expected a directory without a null character in its name"),
        ({"fields": {"include": [["a"]]}}, "rollout_dump.fields.include is [['a']]; expected a list of names"),
        (
            {"fields": {"include": ["a", "???"]}},
            "are missing (still ???): rollout_dump.fields.include.1",
        ),
        (
            {"sampling": {"max_records": "x"}},
            "sampling.max_records is 'x'; expected a whole number or null",
        ),
        ("default", "hydra.searchpath=[pkg://verl_rollout_dump.conf]"),
        ([], "rollout_dump is a list ([]) where a node belongs"),
    ],
)
def test_each_mistake_is_explained(given, said):
    with pytest.raises(ConfigError) as caught:
        load_config(given)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"writer": {"compression": "zstd"}},
            "rollout_dump.writer.compression=zstd needs the package zstandard,",
        ),
        (
            {"writer": {"mode": "ray"}},
            "rollout_dump.writer.mode=ray needs the package ray, which is not installed.",
        ),
    ],
)
def test_a_value_whose_package_is_missing_is_refused(monkeypatch, given, said):
    monkeypatch.setattr(validation, "find_spec", lambda package: None)
    with pytest.raises(ConfigError) as caught:
        load_config(given)
    assert said in str(caught.value)


def test_all_mistakes_come_in_one_message():
    with pytest.raises(ConfigError) as caught:
        load_config({"on_eror": "warn", "path": {"existing": "keep"}, "writer": "inline"})
    assert len(caught.value.problems) == 3
    assert str(caught.value).startswith("rollout_dump: 3 mistakes in the config\n  - ")


def test_all_mandatory_values_come_in_one_message():
    with pytest.raises(ConfigError) as caught:
        load_config({"rollout_dump": {"path": {"dir": "???"}, "on_error": "???"}})
    assert "(still ???): rollout_dump.on_error, rollout_dump.path.dir" in str(caught.value)


def test_the_error_survives_pickling():
    # Ray pickles what its workers raise
    error = pickle.loads(pickle.dumps(ConfigError(["one", "two"])))
    assert error.problems == ["one", "two"]


def test_write_resolved_leaves_nothing_to_resolve(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = OmegaConf.create(
        {
            "trainer": {"rollout_data_dir": None, "validation_data_dir": None},
            "rollout_dump": {"path": {"dir": "${oc.env:HOME}/x"}},
        }
    )
    OmegaConf.set_struct(config, True)
    monkeypatch.setenv("HOME", "relative")
    write_resolved(config)
    assert config.rollout_dump.path.dir == str(tmp_path / "relative/x")
    # verl asks its own key whether to dump at all
    assert config.trainer.rollout_data_dir == str(tmp_path / "relative/x")
    assert config.trainer.validation_data_dir is None
    assert OmegaConf.to_container(config.rollout_dump, resolve=False)["on_error"] == "warn"


def test_write_resolved_leaves_a_config_alone_that_wants_no_dump():
    config = OmegaConf.create({"trainer": {"rollout_data_dir": None}})
    write_resolved(config)
    assert config == {"trainer": {"rollout_data_dir": None}}
