"""The one thing that setup.cfg cannot say: the C that speeds up decoding, where there is a compiler for it."""

from setuptools import Extension, setup

# py_limited_api: it uses no Python.h, so one wheel serves all versions of Python (bdist_wheel in setup.cfg).
NATIVE = Extension("verl_rollout_dump._native", ["verl_rollout_dump/native.c"], py_limited_api=True, optional=True)

setup(ext_modules=[NATIVE])
