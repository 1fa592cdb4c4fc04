"""Makes a tiny Llama with a tokenizer trained on the spot; runs inside the environment.

The same environment gives the same files: the training text is SGLang's own source, which its
pin fixes, and the weights are drawn from a fixed seed.
"""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

_SEED = 0
_VOCABULARY_TOKENS = 1024
_CONTEXT_TOKENS = 2048
_TEXT_FILES = 40
_SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
_CHAT_TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "
)


def main(directory: Path) -> None:
    """Write the checkpoint and its tokenizer."""
    directory.mkdir(parents=True, exist_ok=True)
    _write_tokenizer(directory)
    _write_weights(directory)


def _write_tokenizer(directory: Path) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY_TOKENS,
        special_tokens=list(_SPECIAL_TOKENS.values()),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_training_texts(), trainer)
    tokenizer.save(str(directory / "tokenizer.json"))
    description = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": _CONTEXT_TOKENS,
        "clean_up_tokenization_spaces": False,
        "chat_template": _CHAT_TEMPLATE,
        **_SPECIAL_TOKENS,
    }
    _write_json(directory / "tokenizer_config.json", description)


def _training_texts() -> Iterator[str]:
    spec = importlib.util.find_spec("sglang")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("sglang is not installed here")
    sources = sorted(Path(spec.origin).parent.joinpath("srt", "managers").glob("*.py"))
    for source in sources[:_TEXT_FILES]:
        yield source.read_text(encoding="utf-8")


def _write_weights(directory: Path) -> None:
    torch.manual_seed(_SEED)
    config = LlamaConfig(
        vocab_size=_VOCABULARY_TOKENS,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=_CONTEXT_TOKENS,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(directory)


def _write_json(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
