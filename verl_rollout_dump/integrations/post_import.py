"""Run an action right after a module was imported, without importing it.

verl loads plugins from inside `import verl`, long before its trainers are imported. Importing the trainers there would
be circular and would load torch into every Ray process. So an action on a module is registered here, and runs when
somebody imports the module (or at once if it is imported already).
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

logger = logging.getLogger(__name__)

_Action = Callable[[ModuleType], None]


class _PostImportFinder(MetaPathFinder):
    """Asks the other finders for a module, and wraps the loader of those that have registered actions."""

    def __init__(self) -> None:
        self.actions: dict[str, list[_Action]] = {}
        self._searching = threading.local()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module with actions, its loader wrapped; None for every other module."""
        if fullname not in self.actions or getattr(self._searching, "name", None) == fullname:
            return None
        self._searching.name = fullname
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching.name = None
        if spec is not None and spec.loader is not None:
            spec.loader = _PostImportLoader(spec.loader, self)
        return spec


class _PostImportLoader(Loader):
    """Loads as the wrapped loader does, then runs the actions."""

    def __init__(self, loader: Loader, finder: _PostImportFinder) -> None:
        self._loader = loader
        self._finder = finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module as the wrapped loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module as the wrapped loader does; then run the actions of this module."""
        self._loader.exec_module(module)
        if module.__spec__ is not None:  # from now on the module shows its own loader
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        for action in self._finder.actions.pop(module.__name__, []):
            _run_action(action, module)

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)  # get_source, get_code, is_package: runpy and inspect ask for them


_finder = _PostImportFinder()


def when_imported(module_name: str, action: _Action) -> None:
    """Call `action(module)` once, right after `module_name` has been imported; at once if it is already there.

    An action that raises is logged with its traceback at ERROR and does not break the import.
    """
    module = sys.modules.get(module_name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        _run_action(action, module)
        return
    _finder.actions.setdefault(module_name, []).append(action)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def _run_action(action: _Action, module: ModuleType) -> None:
    """Run one action. An exception is logged, because an import must not fail for it."""
    try:
        action(module)
    except Exception:
        logger.exception(
            "verl_rollout_dump could not prepare the module %s: the part that needs it is off",
            module.__name__,
        )
