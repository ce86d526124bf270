"""Random records and hostile lines, and the comparison of a table's row with its record."""

import json

from hypothesis import strategies as st

from verl_rollout_dump.serialization import decode_markers

NAMES = st.sampled_from(["score", "gts", "x", "y", "Score", "filename", "", "a.b", "größe", "$bytes", "step"])
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**64 - 1), st.sampled_from([0, 1, 2**53, 2**53 + 1, 2**60 + 1]), st.floats(allow_nan=False)
)
TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["01-02-2024", "12:30:00", "123e4567-e89b-12d3-a456-426614174000", "NULL", "1"]),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
RANDOM_RECORDS = st.dictionaries(NAMES, VALUES, max_size=5)
BAD_LINES = st.sampled_from(
    [b"", b"garbage", b'{"torn": ', b"[1]", b"3", b"null", b'{"gts": "\xe9"}', b'{"score": NaN}', b"\xff\xfe", b"\r"]
)


def line(record):
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass")


def same(value, cell, path, as_text):
    """Whether a cell of a table holds a value: the same, as JSON text, or as a struct with more fields, all null."""
    if cell is None or value is None:
        return cell is value
    if path in as_text:
        return isinstance(cell, str) and equal(value, json.loads(cell))
    if isinstance(value, dict) and not isinstance(decode_markers(value), dict):
        return equal(decode_markers(value), cell)
    if isinstance(value, dict):
        return (
            isinstance(cell, dict)
            and cell.keys() >= value.keys()
            and all(same(value.get(name), inner, f"{path}.{name}", as_text) for name, inner in cell.items())
        )
    if isinstance(value, list):
        return len(value) == len(cell) and all(
            same(v, c, f"{path}[]", as_text) for v, c in zip(value, cell, strict=True)
        )
    return equal(value, cell)


def equal(value, cell):
    """Whether values are equal: NaN equals itself, true is not 1, and 1 is 1.0."""
    if value != value:
        return cell != cell
    return (isinstance(value, bool) == isinstance(cell, bool)) and value == cell
