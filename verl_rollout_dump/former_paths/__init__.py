"""Import paths of earlier releases, kept as re-exports: `verl_rollout_dump.callback` and the others in this folder.

The folder is on `verl_rollout_dump.__path__`, so its modules are importable directly below `verl_rollout_dump`.
"""
