"""Jobs of one Hydra sweep must not write into one directory: the first to come claims it.

Without this the second job would look like a resume of the first, and would supersede its files step by step
(hydra-ecosystem/hydra#1817). A later sweep, or the same job started again, may go on in the directory.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from verl_rollout_dump.config.errors import ConfigError

CLAIM = "sweep.json"


@dataclass(frozen=True)
class SweepJob:
    """One job of a sweep: the sweep's directory, the job's number in it, and what was overridden for it."""

    sweep: str
    job: int
    overrides: list[str]


def claim_for_job(directory: Path) -> None:
    """Claim a directory for the job of a sweep that runs in this process; outside of sweeps, do nothing.

    Raises `ConfigError` where another job of the same sweep has claimed it, and OSError where the claim cannot be
    written.
    """
    ours = current_job()
    if ours is None:
        return
    directory.mkdir(parents=True, exist_ok=True)
    claim = directory / CLAIM
    try:
        write_new(claim, ours)
    except FileExistsError:
        if read_claim(claim).sweep != ours.sweep:  # what an earlier sweep left
            replace(claim, ours)
    theirs = read_claim(claim)
    if theirs != ours and (theirs.sweep, theirs.job) != (ours.sweep, ours.job):
        raise ConfigError([refusal(directory, ours, theirs)])


def current_job() -> SweepJob | None:
    """Return the job that Hydra runs in this process, if it belongs to a sweep."""
    module = sys.modules.get("hydra.core.hydra_config")
    if module is None or not module.HydraConfig.initialized():
        return None
    hydra = module.HydraConfig.get()
    if hydra.mode is None or hydra.mode.name != "MULTIRUN":
        return None
    sweep = Path(hydra.runtime.cwd) / hydra.sweep.dir
    return SweepJob(str(sweep), int(hydra.job.num), list(hydra.overrides.task))


def refusal(directory: Path, ours: SweepJob, theirs: SweepJob) -> str:
    """Say which two jobs want one directory, and what to do."""
    return (
        f"job {ours.job} of this sweep ({' '.join(ours.overrides)}) would write to {directory}, where job {theirs.job} "
        f"({' '.join(theirs.overrides)}) already does. Give each job a directory of its own: add "
        "+rollout_dump=default rollout_dump/path=per_run"
    )


def write_new(path: Path, job: SweepJob) -> None:
    """Write a claim that is not there yet, whole from the first moment; raises FileExistsError."""
    temporary = write_beside(path, job)
    try:
        os.link(temporary, path)
    finally:
        temporary.unlink()


def replace(path: Path, job: SweepJob) -> None:
    """Write a claim over an older one."""
    os.replace(write_beside(path, job), path)


def write_beside(path: Path, job: SweepJob) -> Path:
    """Write a claim under a name of this process alone: jobs of a sweep may start at the same time."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(asdict(job)), encoding="utf-8")
    return temporary


def read_claim(path: Path) -> SweepJob:
    """Read a claim; raises ConfigError where the file is none."""
    try:
        return SweepJob(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ConfigError(
            [f"{path} is not a claim of a sweep's job ({error}); remove it, or choose another directory"]
        ) from error
