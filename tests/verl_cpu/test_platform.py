"""The CPU backend as verl sees it: the entry point, the platform, and a real training."""

import os
import re
import subprocess
import sys

import pytest

from verl_rollout_dump.verl_cpu.progress import METRIC

pytestmark = pytest.mark.verl


def run_python(code, **variables):
    """Run Python code in a fresh process with these environment variables, and return what it printed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("VERL_", "RAY_"))}
    result = subprocess.run(
        [sys.executable, "-c", code], env={**env, **variables}, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result


HEAVY = "sorted({'torch', 'verl', 'transformers', 'ray', 'pandas'} & set(sys.modules))"


@pytest.mark.parametrize("variables", [{}, {"VERL_PLATFORM": "nvidia"}, {"VERL_PLATFORM": "cpu"}])
def test_the_entry_point_imports_nothing_heavy(variables):
    code = f"import sys, verl_rollout_dump.verl_cpu; print({HEAVY})"
    assert run_python(code, **variables).stdout == "[]\n"


def test_without_the_variable_nothing_is_registered():
    code = "import sys, verl_rollout_dump.verl_cpu; print('verl_rollout_dump.verl_cpu.registration' in sys.modules)"
    assert run_python(code).stdout == "False\n"


def test_a_failed_registration_is_loud():
    code = (
        "import sys; sys.modules['verl_rollout_dump.verl_cpu.registration'] = None\n"
        "try:\n    import verl_rollout_dump.verl_cpu\nexcept ImportError: print('raised')"
    )
    result = run_python(code, VERL_PLATFORM="cpu")
    assert result.stdout == "raised\n"
    assert "the CPU backend for verl could not be registered" in result.stderr
    assert "Traceback" in result.stderr


def test_verl_finds_the_backend():
    code = """
import torch, verl
from verl.plugin.platform import get_platform
from verl.utils.device import get_device_id, get_device_name, get_nccl_backend, get_torch_device
from verl.workers.rollout.base import get_rollout_class
from verl.workers.rollout.replica import get_rollout_replica_class
print(type(get_platform()).__name__, get_device_name(), get_nccl_backend(), get_device_id())
print(get_rollout_class("transformers_cpu").__name__, get_rollout_replica_class("transformers_cpu").__name__)
print(get_torch_device().memory_allocated(), get_torch_device().is_available())
"""
    lines = run_python(code, VERL_PLATFORM="cpu").stdout.splitlines()
    assert lines == ["CpuPlatform cpu gloo cpu", "WeightPusher CpuReplica", "0 True"]


def test_the_process_group_opens():
    code = """
import os, verl, torch
os.environ.update(RANK="0", WORLD_SIZE="1", DIST_INIT_METHOD=f"file://{os.environ['RENDEZVOUS']}")
from verl.utils.distributed import initialize_global_process_group_ray
initialize_global_process_group_ray(timeout_second=60)
tensor = torch.ones(2)
torch.distributed.all_reduce(tensor)
print(torch.distributed.get_backend(), tensor.tolist())
"""
    rendezvous = f"/tmp/verl_cpu_rendezvous_{os.getpid()}"
    try:
        assert run_python(code, VERL_PLATFORM="cpu", RENDEZVOUS=rendezvous).stdout == "gloo [1.0, 1.0]\n"
    finally:
        if os.path.exists(rendezvous):
            os.unlink(rendezvous)


@pytest.fixture(scope="module")
def platform():
    from verl_rollout_dump.verl_cpu.platform import CpuPlatform

    return CpuPlatform()


def test_platform_values(platform):
    import torch

    assert platform.device_name == "cpu"
    assert platform.vendor_name == "generic"
    assert platform.is_available() is True
    assert platform.is_platform_available(use_smi_check=True) is False
    assert platform.current_device() == torch.device("cpu")
    assert platform.device_count() == 1
    assert platform.get_device_capability() == (None, None)
    assert platform.communication_backend_name() == "gloo"
    assert platform.ray_resource_options(1) == {"num_gpus": 1}
    assert platform.is_ipc_supported() is False
    assert platform.cudart() is None
    with platform.nvtx_range("anything"):
        pass


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("set_device", (0,)),
        ("synchronize", ()),
        ("set_allocator_settings", ("expandable_segments:True",)),
        ("empty_cache", ()),
        ("profiler_start", ()),
        ("profiler_stop", ()),
    ],
)
def test_platform_methods_without_effect(platform, method, arguments):
    assert getattr(platform, method)(*arguments) is None


@pytest.mark.parametrize("method", ["manual_seed", "manual_seed_all"])
def test_platform_seeds_torch(platform, method):
    import torch

    with torch.random.fork_rng():
        getattr(platform, method)(3)
        first = torch.rand(2)
        torch.manual_seed(3)
        assert torch.equal(first, torch.rand(2))


def test_device_module_has_what_verl_calls(platform):
    device = platform.device_module
    for name in device.__all__:
        assert callable(getattr(device, name)), name
    assert device.max_memory_reserved() == 0
    assert device.empty_cache() is None
    free, total = device.mem_get_info()
    assert 0 < free <= total
    state = device.get_rng_state()
    device.set_rng_state(state)
    assert device.get_device_name() == "cpu"


@pytest.mark.train
def test_rollout_and_trainer_agree(tiny_training):
    steps = [line for line in tiny_training.log.splitlines() if re.search(r"step:\d+ - ", line)]
    assert len(steps) == 2
    for line in steps:
        metrics = dict(METRIC.findall(line))
        assert float(metrics["training/rollout_probs_diff_max"]) < 1e-4
        assert float(metrics["actor/grad_norm"]) > 0
        assert metrics["training/off_policy/trajectory_staleness/max"] == "0"


@pytest.mark.train
def test_a_training_leaves_nothing_beside_its_outputs(tiny_training):
    assert sorted(os.listdir(tiny_training.folder)) == ["outputs", "rollouts", "verl.log"]
    assert os.listdir(tiny_training.folder / "outputs") == ["hydra"]
