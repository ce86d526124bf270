"""The version of the package: read by setup.cfg, and written into every `run.json`."""

__version__ = "0.1.0"
