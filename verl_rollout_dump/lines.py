"""From a snapshot to lines: text is decoded, the other fields are encoded, and both are put together.

    {"input":"<decoded>","output":"<decoded>","gts":...,"score":...,"step":7,...}

Decoded text comes from `decode` as JSON already, and is the largest part of a line by far; the fields between two
texts are encoded together. Chunks of rows bound the memory that this takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np
import orjson

from verl_rollout_dump.compression import Pieces
from verl_rollout_dump.decode import Row, TextDecoder
from verl_rollout_dump.serialization import ConversionReport, Serializer, encode_record
from verl_rollout_dump.snapshot import ConvertedStep, TextField, TokensField, ValuesField, WrittenField
from verl_rollout_dump.token_rows import TokenRows

TOKENS_PER_CHUNK = 1 << 20
ROWS_PER_CHUNK = 1024


@dataclass
class Segment:
    """For each row of a chunk the JSON of one or several fields: `"name":value,"name":value`."""

    before: bytes
    values: Sequence[Row]
    after: bytes = b""


class LineEncoder:
    """Encodes steps. One for a dump, used by one thread at a time."""

    def __init__(self, serializer: Serializer, max_chars: int | None, decoder: Callable[[], TextDecoder]) -> None:
        self._serializer = serializer
        self._max_chars = max_chars
        self._decoder = decoder

    def chunks(self, step: ConvertedStep) -> Iterator[Pieces]:
        """Yield the pieces of the lines of a step, each line ending in a line feed, a bounded number at a time."""
        size = rows_per_chunk(step.fields)
        groups = grouped(step.fields)
        for first in range(0, step.rows, size):
            last = min(first + size, step.rows)
            segments = [self._segment(group, first, last, step.report) for group in groups]
            yield put_together(segments)

    def _segment(self, group: list[WrittenField], first: int, last: int, report: ConversionReport) -> Segment:
        field = group[0]
        if isinstance(field, TextField):
            return self._texts(field.name, field.tokens, first, last, report)
        if isinstance(field, TokensField):
            return self._numbers(field.name, field.tokens, first, last, report)
        return values_segment([f for f in group if isinstance(f, ValuesField)], first, last)

    def _texts(self, name: str, tokens: TokenRows, first: int, last: int, report: ConversionReport) -> Segment:
        bodies = self._decoder().json_rows(*tokens.chunk(first, last))
        if self._max_chars is None or max(map(len, bodies), default=0) <= self._max_chars:
            return Segment(orjson.dumps(name) + b':"', bodies, b'"')
        texts = [orjson.loads(b'"' + body + b'"') for body in bodies]
        return self._converted(name, texts, report)

    def _numbers(self, name: str, tokens: TokenRows, first: int, last: int, report: ConversionReport) -> Segment:
        numbers, starts, stops = tokens.chunk(first, last)
        spans = zip(numbers, starts.tolist(), stops.tolist(), strict=True)
        rows = [np.ascontiguousarray(row[start:stop]) for row, start, stop in spans]
        if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
            return self._converted(name, rows, report)  # orjson would write null without a word
        arrays = [orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) for row in rows]
        return Segment(orjson.dumps(name) + b":", arrays)

    def _converted(self, name: str, values: list[Any], report: ConversionReport) -> Segment:
        converted = self._serializer.convert_column(name, values, report)
        return Segment(b"", [encode_record({name: value})[1:-1] for value in converted])


def values_segment(fields: list[ValuesField], first: int, last: int) -> Segment:
    """Encode fields whose values are there already."""
    names = [field.name for field in fields]
    rows = zip(*(field.values[first:last] for field in fields), strict=True)
    return Segment(b"", [encode_record(dict(zip(names, row, strict=True)))[1:-1] for row in rows])


def put_together(segments: list[Segment]) -> Pieces:
    """Return the pieces of all lines of a chunk, in order; the text in them is not copied once more."""
    columns: list[Iterable[Row]] = []
    before = b"{"
    for segment in segments:
        columns += [repeat(before + segment.before), segment.values]
        before = segment.after + b","
    ends = repeat(segments[-1].after + b"}\n")
    return list(chain.from_iterable(zip(*columns, ends, strict=False)))  # the values alone end


def grouped(fields: list[WrittenField]) -> list[list[WrittenField]]:
    """Put neighbouring fields of values together; each other field stands alone."""
    groups: list[list[WrittenField]] = []
    for field in fields:
        if groups and isinstance(field, ValuesField) and isinstance(groups[-1][0], ValuesField):
            groups[-1].append(field)
        else:
            groups.append([field])
    return groups


def rows_per_chunk(fields: list[WrittenField]) -> int:
    """Return how many rows hold about `TOKENS_PER_CHUNK` tokens."""
    longest = max((field.tokens.longest for field in fields if not isinstance(field, ValuesField)), default=1)
    return max(1, min(ROWS_PER_CHUNK, TOKENS_PER_CHUNK // max(longest, 1)))
