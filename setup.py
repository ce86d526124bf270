"""What setup.cfg cannot express: the optional C extension, and conf/ as a package inside verl_rollout_dump."""

import runpy
from pathlib import Path
from typing import Any

import setuptools

SOURCES = sorted(str(path) for path in Path("verl_rollout_dump/native").glob("*.c"))
LAYOUT = runpy.run_path("verl_rollout_dump/native/piece_layout.py")
MACROS = [(name, str(value)) for name, value in LAYOUT.items() if name.isupper()]
# py_limited_api: it uses no Python.h, so one wheel serves all versions of Python (bdist_wheel in setup.cfg).
NATIVE = setuptools.Extension(
    "verl_rollout_dump.native.library", SOURCES, define_macros=MACROS, py_limited_api=True, optional=True
)


class Distribution(setuptools.Distribution):
    """Adds conf/ to the packages that `find:` has found."""

    def parse_config_files(self, *arguments: Any, **options: Any) -> None:
        """Read setup.cfg and pyproject.toml."""
        super().parse_config_files(*arguments, **options)
        self.packages.append("verl_rollout_dump.conf")


setuptools.setup(distclass=Distribution, ext_modules=[NATIVE])
