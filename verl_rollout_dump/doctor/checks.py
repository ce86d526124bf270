"""The checks, in the order in which a training depends on them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any, Literal

from packaging.version import Version

from verl_rollout_dump import native
from verl_rollout_dump.config import ConfigError
from verl_rollout_dump.config.urls import absolute, is_url
from verl_rollout_dump.doctor import plain
from verl_rollout_dump.doctor.directory_check import directory_check
from verl_rollout_dump.doctor.probe import Probe, run_probe
from verl_rollout_dump.doctor.remedies import remedy_for
from verl_rollout_dump.hooks import check_callbacks
from verl_rollout_dump.integrations.verl.releases import RELEASES, SUPPORTED

_Outcome = Literal["ok", "note", "wrong"]
_LAST = Version(RELEASES[-1])
SUPPORTED_VERL = (RELEASES[0], f"{_LAST.major}.{_LAST.minor + 1}")
SUPPORTED_HYDRA = ("1.3.2", "1.4")
_PLUGIN_MODULE = "verl_rollout_dump.plugin"
_GROUP = "verl.plugins"
_INSTALL = "pip install verl-rollout-dump in the environment that runs verl"


@dataclass(frozen=True)
class Check:
    """The result of one check: what was found and, if it is wrong, what to do."""

    name: str
    outcome: _Outcome
    found: str
    remedy: str = ""


def examine(arguments: Sequence[str]) -> Iterator[Check]:
    """Yield all checks for a command line (Hydra's flags and overrides, as verl gets them).

    Without verl the checks are those of a dump that is started from Python or by TRL.
    """
    installed = installed_version("verl")
    yield from _without_verl(arguments) if installed is None else _with_verl(installed, arguments)


def _with_verl(installed: str, arguments: Sequence[str]) -> Iterator[Check]:
    """Yield the checks of a training with verl; those that need `import verl` are left out where it fails."""
    yield in_range("verl", installed, SUPPORTED_VERL)
    yield in_range("hydra-core", installed_version("hydra-core") or "0", SUPPORTED_HYDRA)
    yield from trl_check(installed_version("trl"))
    yield decoding_check()
    yield loading_check(installed)
    probe = run_probe(arguments)
    yield plugin_check(probe)
    if probe.first("verl") is None:
        return
    yield from seam_checks(probe)
    yield from config_checks(probe, arguments)
    yield from directory_checks(probe)


def _without_verl(arguments: Sequence[str]) -> Iterator[Check]:
    """Yield the checks of a dump that is started from Python or by TRL."""
    yield Check("verl", "note", "is not installed: these are the checks for plain Python and TRL")
    yield in_range("hydra-core", installed_version("hydra-core") or "0", SUPPORTED_HYDRA)
    for trainer, differences in plain.trl_differences():
        remedy = f"install a trl whose {trainer} is supported (1.16), or hand a RolloutBatch to RolloutDumpCallback"
        yield (
            Check(f"trl {trainer}", "wrong", differences, remedy)
            if differences
            else Check(f"trl {trainer}", "ok", "dump_rollouts(trainer) knows its methods")
        )
    yield decoding_check()
    probe = plain.composed(arguments)
    yield from config_checks(probe, arguments)
    if arguments:
        yield from directory_checks(probe)
    else:
        yield Check("directory", "note", "none was named", f"give {plain.DIRECTORY_KEY}=DIR to the doctor to check one")


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
    """Warn of TRL 1.14 and later beside verl 0.9, which imports `trl.experimental.ppo`; they no longer have it."""
    if found is not None and Version(found) >= Version("1.14"):
        yield Check("trl", "wrong", f"{found}: verl's trainings fail beside it", "install trl<1.13, or uninstall trl")


def decoding_check() -> Check:
    """Report whether C or numpy joins the text of token ids."""
    if native.library is not None:
        return Check("decoding", "ok", "in C")
    remedy = "if dumps are large, install this package again where there is a C compiler (cc)"
    return Check(
        "decoding",
        "note",
        "with numpy, several times slower, since this package was installed without a C compiler",
        remedy,
    )


def loading_check(verl: str) -> Check:
    """Check how verl finds the plugin in this environment."""
    modules = os.environ.get("VERL_USE_EXTERNAL_MODULES", "").split(",")
    policy = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto").strip().lower()
    offered = any(point.value == _PLUGIN_MODULE for point in entry_points(group=_GROUP))
    allowed = policy == "auto" or "verl_rollout_dump" in [name.strip() for name in policy.split(",")]
    name = "loading"
    if _PLUGIN_MODULE in modules:
        return Check(name, "ok", "the environment variable VERL_USE_EXTERNAL_MODULES")
    if Version(verl) < Version("0.9"):
        return Check(
            name,
            "wrong",
            f"verl {verl} does not load plugins by itself",
            f"set VERL_USE_EXTERNAL_MODULES={_PLUGIN_MODULE}",
        )
    if not offered:
        return Check(name, "wrong", f"no entry point {_GROUP} of this package is installed", _INSTALL)
    if not allowed:
        remedy = f"add verl_rollout_dump to VERL_USE_EXTERNAL_PLUGINS (now {policy!r}), or unset it"
        return Check(name, "wrong", f"VERL_USE_EXTERNAL_PLUGINS={policy} keeps verl from loading it", remedy)
    return Check(name, "ok", f"the entry point {_GROUP}")


def plugin_check(probe: Probe) -> Check:
    """Check that `import verl` works and has loaded the plugin."""
    if probe.first("plugin_loaded"):
        return Check("plugin", "ok", "loaded by `import verl`")
    if probe.first("verl") is None:
        return Check("plugin", "wrong", f"`import verl` fails. {probe.error()}", "repair verl's installation first")
    reason = probe.first("plugin_error")
    if reason:
        return Check("plugin", "wrong", f"cannot be imported. {reason}", "install what is missing, and run the doctor")
    return Check("plugin", "wrong", "not loaded by `import verl`", "do what the check `loading` says")


def seam_checks(probe: Probe) -> Iterator[Check]:
    """Check, for each trainer of this verl, that its rollouts reach the plugin."""
    for seam in probe.first("seams") or []:
        trainer = seam["trainer"].rpartition(".")[2]
        if seam["hooked"]:
            yield Check(f"trainer {trainer}", "ok", "its rollouts are dumped by this plugin")
        elif seam["hooked"] is None:
            yield Check(f"trainer {trainer}", "note", f"cannot be imported here: {seam['why']}")
        else:
            remedy = f"update verl-rollout-dump, or install a verl that it supports ({SUPPORTED})"
            yield Check(f"trainer {trainer}", "wrong", f"verl's own dump stays in charge: {seam['why']}", remedy)


def config_checks(probe: Probe, arguments: Sequence[str]) -> Iterator[Check]:
    """Check what Hydra composed: it ran, and the node has no mistake."""
    if probe.error():
        yield Check("config", "wrong", f"does not compose. {probe.error()}", remedy_for(probe.error()))
        return
    jobs = probe.all("node")
    problems = [problem for job in probe.all("problems") for problem in job["problems"]]
    problems += [problem for job in jobs for problem in _callback_problems(job["node"])]
    for problem in dict.fromkeys(problems):
        yield Check("config", "wrong", problem)
    if problems:
        return
    if not jobs:
        yield Check("config", "note", "Hydra ran no job", "leave out --cfg, --info and --help to check the dump")
    elif jobs[0]["composed"]:
        yield Check("config", "ok", "the node rollout_dump is in the config, and has no mistake")
    else:
        found = "no node rollout_dump: the defaults apply"
        yield Check("config", "ok", found + " (+rollout_dump=default brings it in)")
    if any("rollout_dump." in word.partition("=")[0] and word.startswith("+") for word in arguments):
        yield Check("config", "note", "keys are added with +; with +rollout_dump=default they need none")


def _callback_problems(node: dict[str, Any]) -> list[str]:
    """Return what is wrong with the callbacks that a node names."""
    try:
        check_callbacks(node.get("callbacks", []))
    except ConfigError as error:
        return error.problems
    return []


def directory_checks(probe: Probe) -> Iterator[Check]:
    """Check the directory of each job: absolute path, free space, one record written and read back."""
    jobs = [job["node"] for job in probe.all("node")]
    if any(not node["enabled"] for node in jobs):
        yield Check("dump", "wrong", "rollout_dump.enabled is false: verl's own dump is used", "set it to true")
        return
    places = [absolute(place) for node in jobs for place in _directories(node)]
    if jobs and not places:
        yield Check("directory", "wrong", "none is set, so nothing is dumped", f"add {probe.directory_key}=DIR")
    for place in dict.fromkeys(places):
        jobs_there = sum(place in map(absolute, _directories(node)) for node in jobs)
        if jobs_there > 1:
            node = "" if _nodes_are_composed(probe) else "+rollout_dump=default "
            remedy = f"give each job its own: add {node}rollout_dump/path=per_run"
            yield Check("directory", "wrong", f"{jobs_there} jobs of the sweep would write to {place}", remedy)
        elif is_url(place):
            yield Check("directory", "note", f"{place} is a remote store; no record was written there")
        else:
            yield _writable_check(place)


def _nodes_are_composed(probe: Probe) -> bool:
    """Return whether the command line already brings the node into the config."""
    return all(job["composed"] for job in probe.all("node"))


def _writable_check(place: str) -> Check:
    """Check one directory of this machine."""
    found, fault, remedy = directory_check(Path(place))
    if fault:
        return Check("directory", "wrong", f"{place}: {fault}", remedy)
    return Check("directory", "ok", f"{place}: {found}")


def _directories(node: dict[str, Any]) -> list[str]:
    """Return the directories that a node names."""
    return [path for path in (node["path"]["dir"], node["path"]["validation_dir"]) if path]
