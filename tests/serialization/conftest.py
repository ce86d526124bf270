"""How many examples hypothesis tries: HYPOTHESIS_PROFILE=quick, default or fuzz."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Examples over all property tests of this folder together.
TOTALS = {"quick": 1_000, "default": 21_000, "fuzz": 1_000_000}
SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]

for name, total in TOTALS.items():
    settings.register_profile(
        name, max_examples=total, deadline=None, suppress_health_check=SLOW_IS_FINE, print_blob=True
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
