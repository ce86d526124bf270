"""The rollout server, called without Ray: batches, weights, aborts."""

import asyncio

import numpy as np
import pytest

pytestmark = pytest.mark.verl


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
