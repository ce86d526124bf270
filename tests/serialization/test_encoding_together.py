"""Records encoded in one call and cut apart: each is what it is alone, whatever its text looks like."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verl_rollout_dump.serialization import encode_insides, encode_record, text

JSON_ATOMS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(st.sampled_from('a\n\u2028,{}[]"\\é'))
)
JSON_VALUES = st.recursive(
    JSON_ATOMS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.sampled_from("{},\n"), max_size=3), inner),
    max_leaves=5,
)
RECORDS = st.dictionaries(st.text(st.characters(exclude_categories=("Cs",)), max_size=4), JSON_VALUES, max_size=3)


@settings(max_examples=500)
@given(st.lists(RECORDS, max_size=5), st.integers(1, 4))
def test_records_encoded_together_are_those_encoded_alone(records, together):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "TOGETHER", together)
        insides = encode_insides(records)
    assert insides == [encode_record(record)[1:-1] for record in records]


def test_a_value_that_is_no_json_is_refused_among_others():
    with pytest.raises(TypeError):
        encode_insides([{"a": 1}, {"a": {1, 2}}])
