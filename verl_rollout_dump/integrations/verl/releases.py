"""The releases of verl that can carry the plugin: those that the tests run against. Stated here alone."""

from __future__ import annotations

RELEASES = ("0.6.1", "0.7.1", "0.8.0", "0.9.0", "0.9.1")
SUPPORTED = f"{RELEASES[0]} to {RELEASES[-1]}"
