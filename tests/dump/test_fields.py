"""Which fields records have: order, whitelist, sparse keys, wrong lengths, reserved names, values for the batch."""

import logging

import numpy as np
import pytest

from verl_rollout_dump import DumpError

BASE = [{"input": f"p{i}", "output": f"o{i}", "gts": "g", "score": float(i), "step": 7} for i in range(3)]


def with_extras(*extras):
    return [{**base, **extra} for base, extra in zip(BASE, extras, strict=True)]


def test_a_plain_batch(dump):
    records, report = dump()
    assert records == BASE
    assert (report.written, report.steps_written, report.fields) == (3, 1, {})


def test_the_order_is_the_contracts(dump):
    extras = {"zeta": [1, 2, 3], "acc": [1, 0, 1]}
    records, _ = dump(extras, uids=["u0", "u1", "u2"], request_ids=["r0", "r1", "r2"])
    order = ["input", "output", "gts", "score", "step", "uid", "request_id", "zeta", "acc"]
    assert [list(record) for record in records] == [order] * 3
    assert records[1]["uid"] == "u1" and records[1]["request_id"] == "r1"


def test_sparse_keys_become_null_wherever_they_first_appear(dump):
    # verl-project/verl#7151: keys were taken from sample 0
    records, report = dump([{"acc": 1}, {"acc": 0, "pred": "x"}, None])
    assert records == with_extras({"acc": 1, "pred": None}, {"acc": 0, "pred": "x"}, {"acc": None, "pred": None})
    assert report.fields == {}


def test_a_column_of_another_length_is_left_out_and_said(dump, caplog):
    # verl-project/verl#916: it was left out without a word
    with caplog.at_level(logging.WARNING):
        records, report = dump({"acc": [1, 0], "ok": [1, 2, 3]})
    assert records == with_extras({"ok": 1}, {"ok": 2}, {"ok": 3})
    (warning,) = [r.message for r in caplog.records if "acc" in r.message]
    assert "'acc' has 2 values for 3 rollouts" in warning
    assert report.fields == {"acc: wrong length": 1}


def test_a_score_column_of_another_length_is_null(dump):
    records, report = dump(scores=[1.0])
    assert [record["score"] for record in records] == [None] * 3
    assert report.fields == {"score: wrong length": 1}


def test_a_column_of_another_length_is_an_error_by_option(dump):
    with pytest.raises(DumpError, match="'acc' has 2 values for 3 rollouts"):
        dump({"acc": [1, 0]}, {"on_error": "raise", "fields": {"on_mismatch": "error"}})


def test_reserved_names_keep_the_trainers_values(dump, caplog):
    with caplog.at_level(logging.WARNING):
        records, report = dump({"score": [9, 9, 9], "step": [1, 1, 1], "extra_score": [0, 0, 0]})
    assert records == with_extras(*[{"extra_score_": 9, "extra_step": 1, "extra_score": 0}] * 3)
    assert report.fields == {"score: reserved name": 1, "step: reserved name": 1}
    assert "written as 'extra_step'" in caplog.text


@pytest.mark.parametrize("name", ["uid", "request_id", "prompt_ids", "response_ids", "rollout_log_probs", "outcome"])
def test_an_extra_is_an_extra_whatever_its_name(dump, name):
    records, report = dump({"acc": [1, 1, 1], name: ["a", None, 0.5]})
    assert list(records[0])[5:] == ["acc", name]
    assert [record[name] for record in records] == ["a", None, 0.5]
    assert report.fields == {f"{name}: mixed types": 1}


def test_an_extra_uid_beside_the_trainers(dump):
    records, _ = dump({"uid": ["a", "b", "c"]}, uids=["u", "v", "w"])
    assert records == with_extras(*[{"uid": u, "extra_uid": e} for u, e in zip("uvw", "abc", strict=True)])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("abc", "abc"),
        (0.25, 0.25),
        ({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2, "c": 3}),
        ({1, 2, 3}, [1, 2, 3]),
        (np.array(3.0), 3.0),
        (b"abc", {"$bytes": "YWJj"}),
        (None, None),
    ],
)
def test_a_value_for_the_batch_is_repeated(dump, value, expected):
    assert dump({"tag": value})[0] == with_extras(*[{"tag": expected}] * 3)


def test_names_that_are_no_text(dump):
    records, report = dump({1: [1, 2, 3], "1": [4, 5, 6], "a\ud83d": [7, 8, 9]})
    assert records[0] == {**BASE[0], "1": 1, "1_2": 4, "a\ufffd": 7}
    assert report.fields == {"1: same name twice": 1}


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"include": ["score", "input"]}, ["score", "input"]),
        ({"include": ["s*", "acc"]}, ["score", "step", "acc"]),
        ({"include": ["*"], "exclude": ["g*", "step"]}, ["input", "output", "score", "acc", "a[0]"]),
        ({"include": ["a[0]"]}, ["a[0]"]),
        ({"include": ["acc", "*"]}, ["acc", "input", "output", "gts", "score", "step", "a[0]"]),
        ({"include": ["input", "uid", "request_id"]}, ["input"]),
    ],
)
def test_the_whitelist(dump, fields, names):
    records, report = dump({"acc": [1, 2, 3], "a[0]": [0, 0, 0]}, {"fields": fields})
    assert [list(record) for record in records] == [names] * 3
    assert report.fields == {}


def test_a_whitelisted_name_that_never_comes(dump, caplog):
    with caplog.at_level(logging.WARNING):
        records, report = dump({"acc": [1, 2, 3]}, {"fields": {"include": ["input", "ac"]}})
    assert records[0] == {"input": "p0", "ac": None}
    assert report.fields == {"ac: whitelisted but missing": 1}
    assert "the whitelisted field 'ac' is not in the batch" in caplog.text
    assert "input, output, gts, score, step, acc" in caplog.text


def test_a_missing_name_is_an_error_by_option(dump):
    with pytest.raises(DumpError, match="the whitelisted field 'ac'"):
        dump({}, {"on_error": "raise", "fields": {"include": ["ac"], "on_missing": "error"}})


def test_each_kind_is_warned_of_once(tmp_path, batch, caplog):
    from verl_rollout_dump import RolloutDumpCallback

    with (
        caplog.at_level(logging.WARNING),
        RolloutDumpCallback.from_config({"path": {"dir": str(tmp_path)}}) as callback,
    ):
        for step in range(3):
            callback.on_rollout_end(batch(step=step, extras={"acc": [1]}))
    assert callback.report.fields == {"acc: wrong length": 3}
    assert sum("'acc'" in record.message for record in caplog.records) == 1


def test_a_column_of_mixed_types_is_written_as_it_is_and_said_once(dump, caplog):
    with caplog.at_level(logging.WARNING):
        records, report = dump({"reward": [1.5, {"a": 1}, "x"], "fine": [1, 2.5, None]})
    assert records == with_extras(
        {"reward": 1.5, "fine": 1}, {"reward": {"a": 1}, "fine": 2.5}, {"reward": "x", "fine": None}
    )
    assert report.fields == {"reward: mixed types": 1}
    assert "the column 'reward' holds number, object, text" in caplog.text
    assert "rollout_dump.fields.exclude=[reward]" in caplog.text


def test_scores_are_numbers_under_every_strategy(dump):
    records, _ = dump(
        scores=np.array([0.1, 1, np.nan], np.float32), config={"serialization": {"strategy": "str_fallback"}}
    )
    assert [record["score"] for record in records] == [0.1, 1.0, None]


def test_chosen_rows_of_every_kind_of_column(dump):
    pandas, torch = pytest.importorskip("pandas"), pytest.importorskip("torch")
    extras = {
        "series": pandas.Series([1, 2, 3], index=[7, 8, 9]),
        "jagged": torch.nested.nested_tensor([torch.tensor([i] * i) for i in (1, 2, 3)], layout=torch.jagged),
        "tensor": torch.tensor([1.5, 2.5, 3.5]),
        "array": np.array([b"a", b"b", b"c"]),
        "tuple": (1, 2, 3),
    }
    records, report = dump(extras, config={"sampling": {"max_records": 2}})
    rows = [int(record["output"][1:]) for record in records]
    everything = [
        {"series": 1, "jagged": [1], "tensor": 1.5, "array": {"$bytes": "YQ=="}, "tuple": 1},
        {"series": 2, "jagged": [2, 2], "tensor": 2.5, "array": {"$bytes": "Yg=="}, "tuple": 2},
        {"series": 3, "jagged": [3, 3, 3], "tensor": 3.5, "array": {"$bytes": "Yw=="}, "tuple": 3},
    ]
    assert [{name: record[name] for name in extras} for record in records] == [everything[row] for row in rows]
    assert (len(rows), report.records_not_sampled) == (2, 1)
