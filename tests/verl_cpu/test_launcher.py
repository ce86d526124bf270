"""The launcher of `make run`, with commands that take no time in verl's place."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from verl_rollout_dump.verl_cpu import train
from verl_rollout_dump.verl_cpu.progress import ProgressReader, informative_tail

pytestmark = pytest.mark.verl

# What verl 0.9.1 prints, shortened.
VERL_OUTPUT = """\
[validate_config] All configuration checks passed successfully!
2026-11-30 18:42:49,311 INFO worker.py:2038 -- Started a local Ray instance.
(TaskRunnerV1 pid=1) INFO:2026-11-30 18:43:02,190:Total training steps: 2
(WorkerDict pid=2) LlamaForCausalLM contains 134.52M parameters
(TaskRunnerV1 pid=1) Training Progress:   0%|          | 0/2 [00:00<?, ?it/s]
(TaskRunnerV1 pid=1) step:1 - critic/score/mean:np.float64(0.25) - response_length/mean:15.5 - timing_s/gen:4.01 \
- timing_s/update_actor:10.0 - training/global_step:1
(TaskRunnerV1 pid=1) Training Progress:  50%|#####     | 1/2 [00:33<00:33, 33.08s/it]
(TaskRunnerV1 pid=1) step:2 - training/global_step:2
"""


def test_progress():
    reader = ProgressReader()
    shown = [text for line in VERL_OUTPUT.splitlines() if (text := reader.read(line))]
    assert shown == [
        "configuration checked, starting Ray",
        "Ray is up, loading the data",
        "data loaded, 2 steps to train",
        "model loaded, 134.52M parameters",
        "rollout server is up, training starts",
        "step 1: mean score 0.250, 16 tokens a response, generation 4.0 s, update 10.0 s",
        "step 2",
    ]
    assert reader.read("All configuration checks passed") is None  # told already


def test_the_tail_leaves_out_noise_and_colours():
    log = "first\n\x1b[36m(Worker)\x1b[0m error\n\nx - target_num_threads 8 should not exceed\nlast\n"
    assert informative_tail(log, 2) == "(Worker) error\nlast"


@pytest.mark.parametrize(
    ("flags", "printed"),
    [(["--cfg", "job"], True), (["--cfg=job"], True), (["-c", "job"], True), (["-m", "a.b=1"], False), ([], False)],
)
def test_flags_with_which_hydra_trains_nothing(flags, printed):
    assert train.prints_only(flags) is printed


def test_after_a_sweep_every_dump_is_summarized_and_the_exit_code_is_verls(
    instead_of_verl, monkeypatch, tmp_path, tiny_assets, capfd, write_step
):
    dump = write_step("1.jsonl", [{"input": "p", "output": "r", "gts": None, "score": 1.0, "step": 1}])
    lines = [
        f"rollout_dump: training rollouts will be written to {place}, validation rollouts will not be (x is not set)"
        for place in (dump, tmp_path / "nothing was written", "memory://x")
    ]
    log = instead_of_verl(f"print({chr(10).join(lines)!r})")
    assert train.main(["--model", "tiny", "--assets", str(tiny_assets), "--log", str(log), "-m"]) == 0
    shown = capfd.readouterr().out
    assert all(f"\n{place}\n" in shown for place in (dump, tmp_path / "nothing was written", "memory://x"))


def test_with_cfg_hydra_prints_and_nothing_is_summarized(instead_of_verl, tiny_assets, capfd):
    log = instead_of_verl("print('trainer: {}')")
    assert train.main(["--model", "tiny", "--assets", str(tiny_assets), "--log", str(log), "--cfg", "job"]) == 0
    assert capfd.readouterr().out == "trainer: {}\n"
    assert not log.exists()


def test_hydra_words_pass_through():
    options, overrides = train.parse(["--model", "tiny", "-m", "a.b=1", "--config-name", "ci", "+c=2"])
    assert options.model == "tiny"
    assert overrides == ["-m", "a.b=1", "--config-name", "ci", "+c=2"]
    assert train.command_line(overrides)[1:] == ["-m", "verl.trainer.main_ppo", *overrides]
    assert train.command_line(["a=1"])[3:] == ["--config-name", "verl_cpu", "a=1"]


def test_the_callers_threads_win_and_the_platform_does_not():
    env = train.environment({"OMP_NUM_THREADS": "7", "VERL_PLATFORM": "nvidia"}, Path("/assets"), "/ray")
    assert (env["OMP_NUM_THREADS"], env["VERL_PLATFORM"]) == ("7", "cpu")
    assert (env["VERL_CPU_ASSETS"], env["VERL_CPU_RAY_DIR"]) == ("/assets", "/ray")
    assert train.environment({}, Path("/assets"), "/ray")["OMP_NUM_THREADS"] == str(train.core_count())


@pytest.fixture
def instead_of_verl(monkeypatch, tmp_path):
    """`instead_of_verl(code)` lets the launcher run this Python code where it would start verl."""

    def replace(code):
        monkeypatch.setattr(train, "command_line", lambda overrides: [sys.executable, "-c", code])
        return tmp_path / "logs" / "verl.log"

    return replace


def test_a_failed_training_shows_the_end_of_its_log(instead_of_verl, tmp_path, capsys):
    log = instead_of_verl("print('x' * 9); print('ValueError: bad override'); raise SystemExit(3)")
    assert train.train(tmp_path, log, []) == 3
    output = capsys.readouterr()
    assert "ValueError: bad override" in output.err
    assert f"exit code 3; its whole output: {log}" in output.err
    assert log.read_text() == "xxxxxxxxx\nValueError: bad override\n"


def test_rays_directory_is_short_and_goes_away(instead_of_verl, tmp_path):
    code = "import os; d = os.environ['VERL_CPU_RAY_DIR']; open(d + '/file', 'w'); print(d, end='')"
    log = instead_of_verl(code)
    assert train.train(tmp_path, log, []) == 0
    directory = log.read_text()
    assert len(directory) < 20
    assert not os.path.exists(directory)


def test_an_interrupt_ends_the_training(instead_of_verl, tmp_path):
    log = instead_of_verl("import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    timer = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        train.train(tmp_path, log, [])
    assert time.monotonic() - start < 20
    with pytest.raises(ProcessLookupError):
        os.kill(int(log.read_text().split()[0]), 0)


def test_help_names_the_options():
    command = [sys.executable, "-m", "verl_rollout_dump.verl_cpu.train", "--help"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0
    assert "--model {smollm2,tiny}" in result.stdout
