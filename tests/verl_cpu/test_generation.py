"""How the CPU backend chooses tokens and generates batches."""

import numpy as np
import pytest

pytestmark = pytest.mark.verl


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
