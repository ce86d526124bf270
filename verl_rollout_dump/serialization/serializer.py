"""The `Serializer`, with which the dump converts values."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from verl_rollout_dump.config.schema import SerializationConfig, Strategy
from verl_rollout_dump.serialization.columns import column
from verl_rollout_dump.serialization.conversion import Conversion
from verl_rollout_dump.serialization.copies import copied
from verl_rollout_dump.serialization.report import ConversionReport
from verl_rollout_dump.serialization.rulebook import Rulebook
from verl_rollout_dump.serialization.values import JsonValue


class Serializer:
    """Converts foreign values to JSON-ready ones, as `config` says; may be used by several threads."""

    def __init__(self, config: SerializationConfig) -> None:
        self._book = Rulebook(config)

    @functools.cached_property
    def numeric(self) -> Serializer:
        """The serializer of scores, which are numbers under every strategy, as in verl's own dump."""
        config = self._book.config
        is_typed = Strategy(config.strategy) is Strategy.early_convert
        return self if is_typed else Serializer(replace(config, strategy=Strategy.early_convert))

    def convert_column(self, field: str, values: Any, report: ConversionReport) -> list[JsonValue]:
        """Return the n rows of a column as n JSON-ready values, and count in `report` what was converted.

        `values` has n rows: a list, an array or a tensor (n, ...), or anything that is iterated row by row. The
        result shares nothing that can change with the input, and the input is not changed. Raises
        `ConversionError` where the config wants one.
        """
        return column(Conversion(self._book, field), values, report.field(field))

    def copy_column(self, values: Any) -> Any:
        """Return a copy of the n rows of a column for later conversion; None if it must be converted now.

        The copy converts to what `convert_column` would return now, and nobody else can change it.
        """
        try:
            return copied(values, self._book.config)
        except Exception:  # converting it raises the same, and marks or reports it
            return None

    def convert_value(self, field: str, value: Any, report: ConversionReport, record: int = 0) -> JsonValue:
        """Return one value, of record number `record`, as JSON-ready; otherwise as `convert_column`."""
        return Conversion(self._book, field, record).guarded(value, report.field(field), 0)
