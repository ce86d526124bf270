"""From a snapshot to lines: decodes text, encodes the other fields, and joins both.

    {"input":"<decoded>","output":"<decoded>","gts":...,"score":...,"step":7,...}

`decode` returns text as JSON already, which is by far the largest part of a line. The fields between two texts are
encoded together. The rows are encoded in chunks, which bounds the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ctypes import CDLL
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from verl_rollout_dump import native
from verl_rollout_dump.decode import Row, TextDecoder
from verl_rollout_dump.dump.snapshot import ConvertedStep
from verl_rollout_dump.dump.snapshot_fields import TextField, TokenArrayField, TokenField, ValuesField, WrittenField
from verl_rollout_dump.dump.token_rows import Chunk, TokenRows
from verl_rollout_dump.native import Integers, NotFinite, NumberRows, Numbers, Text
from verl_rollout_dump.serialization import ConversionReport, Serializer, encode_insides
from verl_rollout_dump.serialization.rule import Rule, kind_of
from verl_rollout_dump.storage.compression import Pieces

_TOKENS_PER_CHUNK = 1 << 20
_ROWS_PER_CHUNK = 1024
_REFUSED_IDS = kind_of(
    "token id",
    Rule(
        "refused_id",
        "`<|id=N|>` in the text of its row",
        "",
        instead="give the dump the tokenizer that the ids are of, and a mask that leaves out padding such as -100",
    ),
)


@dataclass
class _Segment:
    """The JSON of one or several fields, for each row of a chunk: `"name":value,"name":value`."""

    before: bytes
    values: Sequence[Row]
    after: bytes = b""


class LineEncoder:
    """Encodes steps. A dump has one, which one thread uses at a time."""

    def __init__(self, serializer: Serializer, max_chars: int | None, decoder: Callable[[], TextDecoder]) -> None:
        self._serializer = serializer
        self._max_chars = max_chars
        self._decoder = decoder

    def chunks(self, step: ConvertedStep) -> Iterator[Pieces]:
        """Yield the pieces of a step's lines, a bounded number at a time; every line ends in a line feed."""
        size = rows_per_chunk(step.fields)
        groups = _grouped(step.fields)
        for first in range(0, step.rows, size):
            chunk = Chunk(first, min(first + size, step.rows))
            segments = [self._segment(group, chunk, step.report) for group in groups]
            yield _put_together(segments) if segments else [b"{}\n"] * (chunk.last - chunk.first)

    def _segment(self, group: list[WrittenField], chunk: Chunk, report: ConversionReport) -> _Segment:
        field = group[0]
        if isinstance(field, TextField):
            return self._texts(field.name, field.tokens, chunk, report)
        if isinstance(field, TokenArrayField):
            return self._numbers(field.name, field.tokens, chunk, report)
        return _values_segment([f for f in group if isinstance(f, ValuesField)], chunk)

    def _texts(self, name: str, tokens: TokenRows, chunk: Chunk, report: ConversionReport) -> _Segment:
        numbers, starts, stops = tokens.of(chunk)
        if not numbers.size:  # nothing to decode, so no tokenizer is needed
            bodies: Sequence[Row] = [b""] * len(starts)
        else:
            decoder = self._decoder()
            refused = decoder.refused_ids
            bodies = decoder.json_rows(numbers, starts, stops)
            if decoder.refused_ids > refused:
                report.field(name).count(_REFUSED_IDS, chunk.first, decoder.refused_ids - refused)
        literals = tokens.literals_of(chunk)
        is_cut = self._max_chars is not None and max(map(len, bodies), default=0) > self._max_chars
        if not is_cut and not literals:
            return _Segment(orjson.dumps(name) + b':"', bodies, b'"')
        texts = [orjson.loads(b'"' + body + b'"') for body in bodies]
        return self._converted(name, _with_literals(texts, literals), report)

    def _numbers(self, name: str, tokens: TokenRows, chunk: Chunk, report: ConversionReport) -> _Segment:
        numbers, starts, stops = tokens.of(chunk)
        literals = tokens.literals_of(chunk)
        try:
            if not literals:
                return _Segment(orjson.dumps(name) + b":", json_arrays(numbers, starts, stops))
        except NotFinite:  # the serializer writes what the config says, and counts it
            pass
        spans = zip(numbers, starts.tolist(), stops.tolist(), strict=True)
        rows = [row[start:stop].copy() for row, start, stop in spans]
        return self._converted(name, _with_literals(rows, literals), report)

    def _converted(self, name: str, values: list[Any], report: ConversionReport) -> _Segment:
        converted = self._serializer.convert_column(name, values, report)
        return _Segment(b"", encode_insides([{name: value} for value in converted]))


def _with_literals(rows: list[Any], literals: Mapping[int, Any]) -> list[Any]:
    """Return rows with the literals of a chunk in their places."""
    return [literals.get(place, row) for place, row in enumerate(rows)]


def _values_segment(fields: list[ValuesField], chunk: Chunk) -> _Segment:
    """Encode fields whose values are JSON-ready."""
    names = [field.name for field in fields]
    rows = zip(*(field.values[chunk.first : chunk.last] for field in fields), strict=True)
    records = [dict(zip(names, row)) for row in rows]  # noqa: B905 (as many as names)
    return _Segment(b"", encode_insides(records))


def _put_together(segments: list[_Segment]) -> Pieces:
    """Return the pieces of all lines of a chunk, in order, without copying the text."""
    columns: list[Iterable[Row]] = []
    before = b"{"
    for segment in segments:
        columns += [repeat(before + segment.before), segment.values]
        before = segment.after + b","
    ends = repeat(segments[-1].after + b"}\n")
    return list(chain.from_iterable(zip(*columns, ends, strict=False)))  # only the values are finite


def _grouped(fields: list[WrittenField]) -> list[list[WrittenField]]:
    """Group neighbouring fields of values; every other field is a group of its own."""
    groups: list[list[WrittenField]] = []
    for field in fields:
        if groups and isinstance(field, ValuesField) and isinstance(groups[-1][0], ValuesField):
            groups[-1].append(field)
        else:
            groups.append([field])
    return groups


def rows_per_chunk(fields: list[WrittenField]) -> int:
    """Return how many rows hold about `_TOKENS_PER_CHUNK` tokens."""
    longest = max((field.tokens.longest for field in fields if isinstance(field, TokenField)), default=1)
    return max(1, min(_ROWS_PER_CHUNK, _TOKENS_PER_CHUNK // max(longest, 1)))


class _Written(NamedTuple):
    """How C writes numbers of one kind."""

    dtype: npt.DTypeLike
    write: Callable[[CDLL, NumberRows, int, Text, Integers], int]
    size: int  # bytes of text that are reserved for a number


# By the kind and the size of the dtype. orjson writes the others.
_IN_C = {
    **dict.fromkeys(("i1", "i2", "i4", "i8", "u1", "u2", "u4"), _Written(np.int64, native.write_integers, 7)),
    "f4": _Written(np.float32, native.write_floats, 13),
}


def json_arrays(numbers: Numbers, starts: Numbers, stops: Numbers) -> Sequence[Row]:
    """Return `numbers[i, starts[i]:stops[i]]` of every row i as a JSON array of numbers.

    Floats get the fewest digits that read back to the same value. Raises `NotFinite` for NaN and the infinities.
    """
    written = _IN_C.get(f"{numbers.dtype.kind}{numbers.itemsize}")
    if native.library is None or written is None:
        return by_orjson(numbers, starts, stops)
    rows = NumberRows(numbers, starts, stops, written.dtype)
    return native.in_buffers(partial(written.write, native.library, rows), len(rows), written.size * rows.total)


def by_orjson(numbers: Numbers, starts: Numbers, stops: Numbers) -> list[bytes]:
    """Do the same with orjson, row by row."""
    spans = zip(numbers, starts.tolist(), stops.tolist(), strict=True)
    native_order = numbers.dtype.newbyteorder("=")
    rows = [np.ascontiguousarray(row[start:stop], native_order) for row, start, stop in spans]
    if numbers.dtype.kind == "f" and not all(np.isfinite(row).all() for row in rows):
        raise NotFinite  # orjson would silently write null
    return [orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) for row in rows]
