"""Imports of optional packages, with an error that says how to install them."""

from __future__ import annotations

import importlib
from typing import Any

from verl_rollout_dump.reader.errors import MissingPackageError

# module -> name of its package, where the two differ
_PACKAGES = {"vl_convert": "vl-convert-python"}


def require(module: str, purpose: str) -> Any:
    """Import and return a module. Raises `MissingPackageError`, which names the purpose and how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        top = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != top:
            raise  # the package is installed, but one of its own imports fails
        raise MissingPackageError(_PACKAGES.get(top, top), purpose) from error
