"""The one thing that setup.cfg cannot say: the C that dumps with, where there is a compiler for it."""

from pathlib import Path

from setuptools import Extension, setup

SOURCES = sorted(str(path) for path in Path("verl_rollout_dump/native").glob("*.c"))
# py_limited_api: it uses no Python.h, so one wheel serves all versions of Python (bdist_wheel in setup.cfg).
NATIVE = Extension("verl_rollout_dump.native.library", SOURCES, py_limited_api=True, optional=True)

setup(ext_modules=[NATIVE])
