"""Two jobs of one sweep never share a directory, wherever it is."""

import json
from uuid import uuid4

import pytest

from verl_rollout_dump import ConfigError
from verl_rollout_dump.config.hydra_job import SweepJob
from verl_rollout_dump.storage import sweep_claim
from verl_rollout_dump.storage.remote.store import Store
from verl_rollout_dump.storage.sweep_claim import claim_for_job


@pytest.fixture(params=["folder", "store"])
def place(request, tmp_path):
    return str(tmp_path / "dump") if request.param == "folder" else f"memory://{uuid4().hex}"


@pytest.fixture
def job(monkeypatch):
    """Claim a directory as a job of a sweep."""

    def claim(place, sweep, number):
        job = SweepJob(sweep, number, [f"+x={number}"]) if sweep else None
        monkeypatch.setattr(sweep_claim, "current_job", lambda: job)
        claim_for_job(place)

    return claim


def content(place):
    if place.startswith("memory"):
        found = Store(place).read("sweep.json")
        return found and json.loads(found)
    from pathlib import Path

    path = Path(place, "sweep.json")
    return json.loads(path.read_bytes()) if path.exists() else None


def test_the_second_job_is_refused(job, place):
    job(place, "sweep", 0)
    job(place, "sweep", 0)  # started again
    with pytest.raises(ConfigError) as caught:
        job(place, "sweep", 1)
    said = f"job 1 of this sweep (+x=1) would write to {place}, where job 0 (+x=0) already writes. Give each job a "
    assert said in str(caught.value)
    assert content(place) == {"sweep": "sweep", "job": 0, "overrides": ["+x=0"]}


def test_a_later_sweep_goes_on(job, place):
    job(place, "first", 0)
    job(place, "second", 3)
    assert content(place)["job"] == 3
    with pytest.raises(ConfigError):
        job(place, "second", 0)


def test_outside_of_a_sweep_nothing_is_claimed(job, place):
    job(place, None, 0)
    assert content(place) is None


def test_a_file_that_is_no_claim_is_named(job, place):
    job(place, "sweep", 0)
    if place.startswith("memory"):
        Store(place).write("sweep.json", b"[1]")
    else:
        with open(f"{place}/sweep.json", "w") as file:
            file.write("[1]")
    with pytest.raises(ConfigError, match=r"sweep\.json is not the claim of a sweep's job .*Remove it"):
        job(place, "sweep", 0)
