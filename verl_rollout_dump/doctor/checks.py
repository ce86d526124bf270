"""The checks, in the order in which a training would meet them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any, Literal

from packaging.version import Version

from verl_rollout_dump import native
from verl_rollout_dump.config.urls import absolute, is_url
from verl_rollout_dump.doctor.directory_check import directory_check
from verl_rollout_dump.doctor.probe import Probe, run_probe

Outcome = Literal["ok", "note", "wrong"]
SUPPORTED_VERL = ("0.6.1", "0.10")
SUPPORTED_HYDRA = ("1.3.2", "1.4")
PLUGIN_MODULE = "verl_rollout_dump.plugin"
GROUP = "verl.plugins"
INSTALL = "pip install verl-rollout-dump in the environment that runs verl"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what was found and, where it is wrong, what to do."""

    name: str
    outcome: Outcome
    found: str
    remedy: str = ""


def examine(arguments: Sequence[str]) -> Iterator[Check]:
    """Yield all checks for a command line of verl (Hydra's flags and overrides).

    Stops early where later checks could not be made.
    """
    installed = installed_version("verl")
    if installed is None:
        yield Check("verl", "wrong", "is not installed in this environment", "run the doctor where verl runs")
        return
    yield in_range("verl", installed, SUPPORTED_VERL)
    yield in_range("hydra-core", installed_version("hydra-core") or "0", SUPPORTED_HYDRA)
    yield from trl_check(installed_version("trl"))
    yield decoding_check()
    yield way_of_loading(installed)
    probe = run_probe(arguments)
    yield plugin_check(probe)
    yield from seam_checks(probe)
    yield from config_checks(probe, arguments)
    yield from directory_checks(probe)


def installed_version(distribution: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def in_range(name: str, found: str, supported: tuple[str, str]) -> Check:
    """Check a version against the supported range."""
    first, beyond = supported
    if Version(first) <= Version(found) < Version(beyond):
        return Check(name, "ok", found)
    return Check(name, "wrong", found, f"install {name} >={first},<{beyond}: others are not tested with this plugin")


def trl_check(found: str | None) -> Iterator[Check]:
    """Warn of a TRL that verl 0.9 takes for one that has `trl.experimental.ppo`, which 1.14 and later have not."""
    if found is not None and Version(found) >= Version("1.14"):
        yield Check("trl", "wrong", f"{found}: verl's trainings fail beside it", "install trl<1.13, or uninstall trl")


def decoding_check() -> Check:
    """Say what joins the text of token ids: C, or numpy where nothing was compiled."""
    if native.library is not None:
        return Check("decoding", "ok", "in C")
    remedy = "install again where there is a C compiler (cc), if dumps are large"
    return Check("decoding", "note", "with numpy, several times slower: no C was compiled for this package", remedy)


def way_of_loading(verl: str) -> Check:
    """Say by which way verl finds the plugin in this environment."""
    modules = os.environ.get("VERL_USE_EXTERNAL_MODULES", "").split(",")
    policy = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto").strip().lower()
    offered = any(point.value == PLUGIN_MODULE for point in entry_points(group=GROUP))
    allowed = policy == "auto" or "verl_rollout_dump" in [name.strip() for name in policy.split(",")]
    name = "way of loading"
    if PLUGIN_MODULE in modules:
        return Check(name, "ok", "the environment variable VERL_USE_EXTERNAL_MODULES")
    if Version(verl) < Version("0.9"):
        return Check(name, "wrong", f"verl {verl} knows no plugins", f"set VERL_USE_EXTERNAL_MODULES={PLUGIN_MODULE}")
    if not offered:
        return Check(name, "wrong", f"no entry point {GROUP} of this package is installed", INSTALL)
    if not allowed:
        remedy = f"add verl_rollout_dump to VERL_USE_EXTERNAL_PLUGINS (now {policy!r}), or unset it"
        return Check(name, "wrong", f"VERL_USE_EXTERNAL_PLUGINS={policy} keeps verl from loading it", remedy)
    return Check(name, "ok", f"the entry point {GROUP}")


def plugin_check(probe: Probe) -> Check:
    """Check that `import verl` has loaded the plugin."""
    if probe.first("plugin_loaded"):
        return Check("plugin", "ok", "loaded by `import verl`")
    found = "not loaded" if probe.answered else "verl cannot be imported"
    return Check("plugin", "wrong", f"{found}. {probe.last_error()}".strip(), "see the check above, and the error")


def seam_checks(probe: Probe) -> Iterator[Check]:
    """Check, for each trainer of this verl, that its rollouts come to us."""
    for seam in probe.first("seams") or []:
        trainer = seam["trainer"].rpartition(".")[2]
        if seam["hooked"]:
            yield Check(f"trainer {trainer}", "ok", "its rollouts are dumped by this plugin")
        elif seam["hooked"] is None:
            yield Check(f"trainer {trainer}", "note", f"cannot be imported here: {seam['why']}")
        else:
            remedy = "update verl-rollout-dump, or use a verl that it supports"
            yield Check(f"trainer {trainer}", "wrong", "verl's own dump stays in charge: its methods differ", remedy)


def config_checks(probe: Probe, arguments: Sequence[str]) -> Iterator[Check]:
    """Check what Hydra composed: the node is there where it was asked for, and has no mistake."""
    problems = [problem for job in probe.all("problems") for problem in job["problems"]]
    for problem in dict.fromkeys(problems):
        yield Check("config", "wrong", problem, "correct the override")
    if problems:
        return
    jobs = probe.all("node")
    if not jobs:
        yield Check("config", "wrong", f"does not compose. {probe.last_error()}", "correct the command line")
    elif jobs[0]["composed"]:
        yield Check("config", "ok", "the node rollout_dump is in verl's config, and has no mistake")
    else:
        found = "no node rollout_dump: the defaults apply"
        yield Check("config", "ok", found + " (+rollout_dump=default brings it in)")
    if any("rollout_dump." in word.partition("=")[0] and word.startswith("+") for word in arguments):
        yield Check("config", "note", "keys are added with +; with +rollout_dump=default they need none")


def directory_checks(probe: Probe) -> Iterator[Check]:
    """Check the directory of each job: absolute path, free space, one record written and read back."""
    jobs = [job["node"] for job in probe.all("node")]
    if any(not node["enabled"] for node in jobs):
        yield Check("dump", "wrong", "rollout_dump.enabled is false: verl's own dump is used", "set it to true")
        return
    places = [absolute(place) for node in jobs for place in directories(node)]
    if jobs and not places:
        yield Check("directory", "wrong", "none is set, so nothing is dumped", "add trainer.rollout_data_dir=DIR")
    for place in dict.fromkeys(places):
        jobs_there = sum(place in map(absolute, directories(node)) for node in jobs)
        if jobs_there > 1:
            remedy = "give each job its own: +rollout_dump=default rollout_dump/path=per_run"
            yield Check("directory", "wrong", f"{jobs_there} jobs of the sweep would write to {place}", remedy)
        elif is_url(place):
            yield Check("directory", "note", f"{place} is a remote store: nothing was written there to try it")
        else:
            yield writable_check(place)


def writable_check(place: str) -> Check:
    """Check one directory of this machine."""
    found, fault = directory_check(Path(place))
    if fault:
        return Check("directory", "wrong", f"{place}: {fault}", "choose another directory, or make room")
    return Check("directory", "ok", f"{place}: {found}")


def directories(node: dict[str, Any]) -> list[str]:
    """Return the directories that a node names."""
    return [path for path in (node["path"]["dir"], node["path"]["validation_dir"]) if path]
