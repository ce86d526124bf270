"""Fields that no record has are refused before the dump is read for them; a rare field is fine."""

import pytest

from verl_rollout_dump.analysis import known_fields
from verl_rollout_dump.analysis.known_fields import require_chosen_fields
from verl_rollout_dump.analysis.selection import condition_of
from verl_rollout_dump.analysis.where import WhereError
from verl_rollout_dump.reader import DumpReadError, FieldNames, open_dump


@pytest.fixture
def dump(write_step, make_record):
    records = [make_record(1, index) for index in range(50)]
    records[40]["rare"] = {"größe": 1}
    write_step("1.jsonl", records)
    return write_step("2.jsonl", [make_record(2, index, late=1, reward={"format": 1.0}) for index in range(4)])


@pytest.mark.parametrize("where", ["score > 0.5", "late == 1", "reward.format == 1", "rare.`größe` == 1", "step > 1"])
def test_fields_that_some_records_have(dump, where):
    condition_of(open_dump(dump), where)


@pytest.mark.parametrize(
    ("where", "message", "position"),
    [
        ("scroe > 0.5", "no record has a field scroe; did you mean score?", 0),
        ("score > 0 and reward.fromat == 1", "no record has a field reward.fromat; did you mean reward.format", 14),
        ("zzz == 1", "no record has a field zzz; fields: acc, gts, input", 0),
    ],
)
def test_unknown_fields_are_named_with_the_nearest(dump, where, message, position):
    with pytest.raises(WhereError) as error:
        condition_of(open_dump(dump), where)
    assert (message in str(error.value), error.value.position) == (True, position)


def test_a_key_across_two_blocks_is_found(dump, monkeypatch):
    monkeypatch.setattr(known_fields, "BLOCK", 7)
    condition_of(open_dump(dump), "rare == null")


def test_a_chosen_field_must_exist(dump):
    with pytest.raises(DumpReadError, match=r"--group taks: no record has a field taks; fields"):
        require_chosen_fields(open_dump(dump, FieldNames(group="taks")))
    require_chosen_fields(open_dump(dump, FieldNames(score="reward.format")))
