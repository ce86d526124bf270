"""One odd value costs its cell or its column, never the step; what can be read is written."""

import collections
import decimal
import fractions

import numpy as np
import pytest

from verl_rollout_dump import RolloutBatch, RolloutDumpCallback


class Letters:
    def decode(self, ids, skip_special_tokens=True):
        return "".join(chr(96 + token) for token in ids)


LETTERS = Letters()


def outputs(dump, responses, tokenizer=LETTERS, **more):
    records, report = dump(n=len(responses), responses=responses, tokenizer=tokenizer, **more)
    return [record["output"] for record in records], report


@pytest.mark.parametrize(
    ("responses", "expected"),
    [
        ([[], [1, 2, 3]], ["", "abc"]),  # tinker-cookbook#848
        ([None, [1, 2]], [None, "ab"]),  # slime#1252
        ([[1, 2], None, []], ["ab", None, ""]),
        (["text", [1, 2]], ["text", "ab"]),
        ([[np.int64(1), np.int32(2)], [3]], ["ab", "c"]),
        ([np.array([1, 2]), np.array([], dtype=np.float64), [3]], ["ab", "", "c"]),
        (np.array([[1, 2], [3]], dtype=object), ["ab", "c"]),
        ([np.array([[1, 2]]), np.array([[3]])], ["ab", "c"]),
        ([(1, 2), (3,)], ["ab", "c"]),
        ([None, None], [None, None]),
    ],
)
def test_rows_of_ids_are_read_one_by_one(dump, responses, expected):
    texts, report = outputs(dump, responses)
    assert texts == expected
    assert (report.failures, report.steps_written) == ({}, 1)


def test_torch_rows_of_one_line_each(dump):
    torch = pytest.importorskip("torch")
    assert outputs(dump, [torch.tensor([[1, 2]]), torch.tensor([3])])[0] == ["ab", "c"]


def test_ids_stay_integers_beside_an_empty_row(dump):
    records, _ = dump(
        n=2,
        responses=[[], [1, 2, 3]],
        tokenizer=LETTERS,
        config={"fields": {"tokens": True, "include": ["response_ids"]}},
    )
    assert [record["response_ids"] for record in records] == [[], [1, 2, 3]]
    assert [type(token) for token in records[1]["response_ids"]] == [int] * 3


def test_only_empty_rows_need_no_tokenizer(dump):
    assert outputs(dump, [[], []], tokenizer=None)[0] == ["", ""]


def test_a_ragged_mask_fits_ragged_rows(dump):
    assert outputs(dump, [[1, 2, 3], [4, 5]], response_mask=[[1, 1, 0], [0, 1]])[0] == ["ab", "e"]


def test_a_mask_that_does_not_fit_costs_its_column(dump, caplog):
    texts, report = outputs(dump, np.array([[1, 2], [3, 4]]), response_mask=np.ones((2, 3)))
    assert texts == [None, None]
    assert (report.failures, report.fields) == ({}, {"output: unreadable": 1})
    assert "the column 'output' cannot be read (BatchError: output is of shape (2, 2)" in caplog.text


@pytest.mark.parametrize(
    ("log_probs", "expected"),
    [
        ([[None, -0.2], [-0.3]], [[None, -0.2], [-0.3]]),  # huggingface/trl#3867
        ([{"a": 1}, [-0.3]], [{"a": 1}, [-0.3]]),
        ([None, [-0.5]], [None, [-0.5]]),
        ([np.array([0.1], np.float32), np.array([0.2], np.float64)], [[0.1], [0.2]]),
        ([np.array([0.1], np.float32), []], [[0.1], []]),
    ],
)
def test_odd_log_probabilities_are_written_as_they_are(dump, log_probs, expected):
    config = {"fields": {"tokens": True, "include": ["output", "rollout_log_probs"]}}
    records, report = dump(n=2, responses=[[1, 2], [3]], log_probs=log_probs, tokenizer=LETTERS, config=config)
    assert [record["rollout_log_probs"] for record in records] == expected
    assert [record["output"] for record in records] == ["ab", "c"]
    assert report.failures == {}


@pytest.mark.parametrize("scores", [np.array([[1.0], [0.5]]), [[1.0], [0.5]], np.matrix([[1.0], [0.5]])])
def test_scores_in_one_column_are_numbers(dump, scores):
    records, _ = dump(n=2, scores=scores)
    assert [record["score"] for record in records] == [1.0, 0.5]


def test_tables_and_nothing_as_extras(dump):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    columns = {"acc": [1, 0], "pred": ["x", None]}
    for extras in (pandas.DataFrame(columns, dtype=object), polars.DataFrame(columns), pyarrow.table(columns)):
        records, report = dump(extras, n=2)
        assert [(record["acc"], record["pred"]) for record in records] == [(1, "x"), (0, None)]
        assert report.failures == {}
    for nothing in (None, {}, []):
        assert list(dump(nothing, n=2)[0][0]) == ["input", "output", "gts", "score", "step"]


def test_extras_of_another_kind_are_left_out_and_counted(dump, caplog):
    records, report = dump(7, n=2)
    assert (len(records), report.fields) == (2, {"extras: unreadable": 1})
    assert "extras are of type int; expected a mapping of columns or one per rollout" in caplog.text


@pytest.mark.parametrize(
    "step", [7, np.int32(7), np.float32(7), 7.0, decimal.Decimal(7), fractions.Fraction(7), np.array(7), True + 6]
)
def test_every_whole_number_is_a_step(tmp_path, batch, step):
    with RolloutDumpCallback.from_config({"path": {"dir": str(tmp_path)}}) as callback:
        callback.on_rollout_end(batch(step=step))
    assert (tmp_path / "7.jsonl").exists()
    assert callback.report.failures == {}


def test_what_is_no_step_fails_alone(tmp_path, batch):
    with RolloutDumpCallback.from_config({"path": {"dir": str(tmp_path)}}) as callback:
        for step in ("5", 3.5, float("nan"), 2, None, -1):
            callback.on_rollout_end(batch(step=step))
    report = callback.report
    assert report.steps_failed == ["'5'", "-1", "3.5", "None", "nan"]
    assert (report.steps_written, report.failed, report.written) == (1, 15, 3)
    assert '"state":"complete"' in (tmp_path / "run.json").read_text().replace(" ", "")


Pair = collections.namedtuple("Pair", "a b")


def test_containers_that_are_columns_and_those_that_are_not(dump):
    pyarrow = pytest.importorskip("pyarrow")
    extras = {"deque": collections.deque([1, 2]), "range": range(2), "arrow": pyarrow.array(["a", None])}
    records, report = dump({**extras, "pair": Pair(3, 4), "text": "xy"}, n=2)
    assert [[record[name] for name in extras] for record in records] == [[1, 0, "a"], [2, 1, None]]
    assert all(record["text"] == "xy" and record["pair"] in ([3, 4], {"a": 3, "b": 4}) for record in records)
    assert report.fields == {}


def test_a_whitelist_of_an_identity_alone(dump):
    records, report = dump({}, {"fields": {"include": ["uid"]}}, n=2)
    assert records == [{"uid": None}] * 2
    assert report.fields == {"uid: whitelisted but missing": 1}


def test_a_whitelist_that_matches_nothing_leaves_empty_records(dump):
    records, report = dump({}, {"fields": {"include": ["nothing_*"]}}, n=2)
    assert records == [{}, {}]
    assert report.fields == {"*: no field chosen": 1}


def test_a_batch_may_be_taken_apart():
    batch = RolloutBatch(1, ["a", "b", "c"], ["d", "e", "f"], [1, 2, 3], extras={"x": range(3), "y": Pair(1, 2)})
    part = batch.take([0, 2])
    assert (part.prompts, part.scores, part.extras) == (["a", "c"], [1, 3], {"x": [0, 2], "y": Pair(1, 2)})
