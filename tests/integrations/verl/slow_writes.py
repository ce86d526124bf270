"""Loaded by VERL_USE_EXTERNAL_MODULES into verl's processes: each step takes SLOW_WRITES seconds to write."""

import os
import time

from verl_rollout_dump.storage import atomic_files

real = atomic_files.write_all


def slow(descriptor, pieces):
    if pieces and bytes(pieces[0][:8]) == b'{"input"':
        time.sleep(float(os.environ["SLOW_WRITES"]))
    return real(descriptor, pieces)


atomic_files.write_all = slow
