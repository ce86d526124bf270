"""A field's kind follows from where it comes from: an extra is written as it was given, whatever its name."""

import numpy as np
import pytest

IDS = np.array([[1, 2, 3], [4, 5, 0]])
MASK = np.array([[1, 1, 0], [1, 0, 0]])
OWN = [[11, 12, 13], [21, 22, 23]]


class Letters:
    def decode(self, ids, skip_special_tokens=True):
        return "".join(chr(96 + token) for token in ids)


@pytest.fixture
def of_ids(dump):
    def run(extras, **config):
        columns = {"prompts": IDS, "responses": IDS, "prompt_mask": MASK, "response_mask": MASK}
        return dump(extras, config, n=2, tokenizer=Letters(), **columns)

    return run


@pytest.mark.parametrize("strategy", ["early_convert", "str_fallback"])
@pytest.mark.parametrize("mode", ["background", "inline"])
def test_an_extra_matrix_is_not_cut_to_the_response_mask(of_ids, strategy, mode):
    config = {"serialization": {"strategy": strategy}, "writer": {"mode": mode}}
    records, report = of_ids({"response_ids": np.array(OWN)}, **config)
    expected = OWN if strategy == "early_convert" else ["[11 12 13]", "[21 22 23]"]
    assert [record["response_ids"] for record in records] == expected
    assert [record["output"] for record in records] == ["ab", "d"]
    assert report.fields == {}


def test_an_extra_beside_the_trainers_own_tokens(of_ids):
    records, report = of_ids({"response_ids": np.array(OWN)}, fields={"tokens": True})
    assert [record["extra_response_ids"] for record in records] == OWN
    assert [record["response_ids"] for record in records] == [[1, 2], [4]]
    assert report.fields == {"response_ids: reserved name": 1}


@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("prompt_ids", ["q17", "q18"]),
        ("response_ids", [None, "x"]),
        ("rollout_log_probs", [0.5, 0.25]),
        ("prompt_mask", [[1], [2, 3]]),
        ("request_id", ["r1", "r2"]),
        ("uid", ["u1", "u2"]),
    ],
)
def test_an_extra_of_text_rollouts_is_written_as_given(dump, tokens, name, values):
    records, report = dump({"acc": [1, 0], name: values}, {"fields": {"tokens": tokens}}, n=2)
    assert [list(record)[5:] for record in records] == [["acc", name]] * 2
    assert [record[name] for record in records] == values
    assert (report.fields, report.failures) == ({}, {})


def test_a_batch_value_named_like_tokens(dump):
    records, _ = dump({"rollout_log_probs": 0.5}, n=2)
    assert [record["rollout_log_probs"] for record in records] == [0.5, 0.5]
