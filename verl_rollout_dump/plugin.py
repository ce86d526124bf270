"""The module that a trainer loads; importing it installs the plugin.

verl 0.9 loads it through the entry point `verl.plugins`, any version through
`VERL_USE_EXTERNAL_MODULES=verl_rollout_dump.plugin`, in the driver and in every Ray process, from inside
`import verl`. So nothing of verl, torch or transformers is imported here. verl logs an exception of a plugin only at
DEBUG, where nobody sees it, so this module logs it at ERROR.
"""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)

try:
    from verl_rollout_dump.config.searchpath import register_search_path
    from verl_rollout_dump.integrations.verl.seams import install_seams

    register_search_path()
    install_seams()
except Exception:
    logger.exception(
        "verl_rollout_dump could not be set up, so rollouts are dumped by verl's own code, if at all. "
        "Run `verl-rollout-dump --version` and `pip check` in this environment to see what is missing"
    )
    raise
