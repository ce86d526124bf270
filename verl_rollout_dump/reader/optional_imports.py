"""Packages that only some parts of the reading side need: imported when asked for, with an error that helps."""

from __future__ import annotations

import importlib
from typing import Any

from verl_rollout_dump.reader.errors import MissingPackageError

# module -> the package that brings it, where the names differ
PACKAGES = {"vl_convert": "vl-convert-python"}


def require(module: str, purpose: str) -> Any:
    """Import a module. Raises `MissingPackageError`, which says what `purpose` needs and how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        top = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != top:
            raise  # it is there, and lacks something itself
        raise MissingPackageError(PACKAGES.get(top, top), purpose) from error
