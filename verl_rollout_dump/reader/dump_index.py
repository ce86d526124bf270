"""`DumpIndex`: the indexes of all files of a dump, built when they are needed; queries on them read no text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verl_rollout_dump.reader.field_names import FieldNames
from verl_rollout_dump.reader.files import DumpFile
from verl_rollout_dump.reader.index import COLUMNS, FileIndex, index_files
from verl_rollout_dump.reader.index_cache import IndexCache, Key
from verl_rollout_dump.reader.parallel import OnProgress, for_files, ignore_progress


class DumpIndex:
    """The indexes of the files of a dump."""

    def __init__(self, path: Path, fields: FieldNames) -> None:
        self._fields = fields
        self._cache = IndexCache(path, fields)
        self._files: list[DumpFile] = []
        self._by_step: dict[int | None, list[DumpFile]] = {}
        self._indexes: dict[DumpFile, FileIndex] = {}  # since the files were set

    def set_files(self, files: list[DumpFile]) -> None:
        """Take the files of the dump as they are listed now."""
        by_step: dict[int | None, list[DumpFile]] = {}
        for file in files:
            by_step.setdefault(file.step, []).append(file)
        # New objects, since other threads of the viewer may read the former ones.
        self._files, self._by_step, self._indexes = files, by_step, {}

    def save(self) -> None:
        """Save the indexes that were built, for the next time the dump is opened."""
        self._cache.save()

    def of(self, file: DumpFile) -> FileIndex:
        """Return the index of a file; builds it if needed."""
        found = self._indexes.get(file)
        if found is None:
            key = self._cache.key(file.path)
            found = self._cache.get(key)
            if found is None:
                (found,) = self._build({key: file})
            self._indexes[file] = found
        return found

    def used(self) -> list[FileIndex]:
        """Return the indexes that have been used since the files were listed."""
        return list(self._indexes.values())

    def has(self, file: DumpFile) -> bool:
        """Return whether the index of the current content of a file has been built."""
        return self._cache.get(self._cache.key(file.path)) is not None

    def build_missing(self, workers: int = 1, on_progress: OnProgress = ignore_progress) -> None:
        """Build the missing indexes, in several processes if the files are large."""
        keys = {self._cache.key(file.path): file for file in self._files}
        missing = {key: file for key, file in keys.items() if self._cache.get(key) is None}
        self._build(missing, workers, on_progress)

    def parts(self, step: int) -> Iterator[tuple[DumpFile, FileIndex, NDArray[np.intp]]]:
        """Yield the files that may hold a step, with their indexes and the positions of its records."""
        by_step = self._by_step
        for file in (*by_step.get(step, ()), *by_step.get(None, ())):
            index = self.of(file)
            yield file, index, index.rows_of(step)

    def column(self, step: int, name: str) -> NDArray[Any]:
        """Return a column for the records of a step."""
        parts = [index.columns[name][rows] for _, index, rows in self.parts(step)]
        return np.concatenate(parts) if parts else np.array([])

    def columns(self, *names: str) -> dict[str, NDArray[Any]]:
        """Return columns for all records, in the order of the files; `index` is the index of each in its step."""
        indexes = [self.of(file) for file in self._files]
        found: dict[str, NDArray[Any]] = {
            name: np.concatenate([index.columns[name] for index in indexes] or [np.array([], COLUMNS[name])])
            for name in {*names, "step"} - {"index"}
        }
        if "index" in names:
            found["index"] = _index_in_group(found["step"])
        return {name: found[name] for name in names}

    def groups(self, step: int) -> NDArray[np.uint64]:
        """Return for each record of a step a hash that it shares with the other rollouts of its prompt, 0 without one.

        The hash is of the chosen group field, else of the uid if records share uids, else of the prompt.
        """
        by_uid = self.column(step, "uid_group")
        if self._fields.group is not None:
            return by_uid
        is_shared = len(np.unique(by_uid)) < len(by_uid) and bool(np.all(by_uid))
        return by_uid if is_shared else self.column(step, "prompt_group")

    def _build(
        self, files: dict[Key, DumpFile], workers: int = 1, on_progress: OnProgress = ignore_progress
    ) -> list[FileIndex]:
        work = partial(index_files, fields=self._fields)
        built = [index for some in for_files(work, list(files.values()), workers, on_progress) for index in some]
        for key, index in zip(files, built, strict=True):
            self._cache.put(key, index)
        return built


def _index_in_group(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each element how many equal elements stand before it."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    is_first = np.r_[True, ordered[1:] != ordered[:-1]] if len(keys) else np.array([], bool)
    starts = np.flatnonzero(is_first)
    indexes = np.empty(len(keys), np.int64)
    indexes[order] = np.arange(len(keys)) - np.repeat(starts, np.diff(np.r_[starts, len(keys)]))
    return indexes
