"""Put our `conf/` on Hydra's search path, so that `+rollout_dump=default` composes in any app.

Hydra 1.3 finds plugins in the namespace package `hydra_plugins`, or through `Plugins.register`. `plugin.py` uses the
latter, which needs no second top-level package. The entry point `hydra.plugins` is for tools that look there.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from verl_rollout_dump.config.hydra_job import CONF_PACKAGE

_PROVIDER = "verl_rollout_dump"


class RolloutDumpSearchPath(SearchPathPlugin):
    """Appends the shipped configs, so that the app's own configs take precedence where names are equal."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Called by Hydra before it composes."""
        search_path.append(provider=_PROVIDER, path=conf_location())


def conf_location() -> str:
    """Return the place of the shipped configs in Hydra's notation, `pkg://...` or `file://...`."""
    if find_spec(CONF_PACKAGE) is not None:
        return f"pkg://{CONF_PACKAGE}"
    # a checkout on PYTHONPATH, not installed: conf/ is beside the package
    return f"file://{Path(__file__).resolve().parents[2] / 'conf'}"


def register_search_path() -> None:
    """Register the search path with Hydra; a second call changes nothing."""
    Plugins.instance().register(RolloutDumpSearchPath)
