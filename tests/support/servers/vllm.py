"""A real vLLM without a GPU, on a tiny model with random weights. `make test-servers` installs it.

    python -m tests.support.servers.vllm FOLDER

writes the model to FOLDER, for `vllm serve FOLDER --load-format dummy`.
"""

import json
import os
import random
import sys
from array import array
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import pytest
from openai import AsyncOpenAI
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from deploy.local.ports import LOOPBACK
from deploy.local.process import Command, http_ok

VERSION = "0.32.0"  # also in the Makefile
MODEL, POOL, REPLICA = "tiny", "tiny-pool", "vllm-0"
ADAPTER = "tiny-tuned"
CONTEXT_TOKENS = 2_048
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
_END = "<|im_end|>"
_VOCABULARY = 2_048
_HIDDEN, _LAYERS, _RANK = 128, 2, 8
_CORPUS = (
    "What is a weir? A weir measures the flow of a river and holds its level.",
    'The tool answers {"city": "Paris", "temperature_c": 21.5, "sky": "clear"} for a place and a day.',
    "Rivers rise in the hills, fall through valleys, meet other rivers and reach the sea after days.",
    "0 1 2 3 4 5 6 7 8 9 true false null [] {} : , user assistant system tool name arguments",
)
# ChatML with tools in the layout of Hermes, which `--tool-call-parser hermes` reads back.
_TEMPLATE = """\
{%- if tools %}<|im_start|>system
Tools: {{ tools | tojson }}<|im_end|>
{% endif -%}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}{% for call in message.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif -%}
"""


@dataclass(frozen=True, slots=True)
class VLlm:
    """A vLLM server. `url` ends in /v1. `model` is the folder of its model."""

    port: int
    command: Command
    model: Path

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/v1"


@dataclass(frozen=True, slots=True)
class Clients:
    """The official client, at vLLM itself and at the gateway."""

    direct: AsyncOpenAI
    through: AsyncOpenAI


def servers_folder() -> Path:
    """Where `make test-servers` installs model servers."""
    return Path(os.environ.get("WEIR_SERVERS_DIR") or Path.home() / ".cache" / "weir" / "servers")


def need_vllm() -> Path:
    """The interpreter of vLLM's environment. Skips the test where it is not installed."""
    folder = servers_folder() / f"vllm-{VERSION}"
    if not (folder / ".installed").exists():
        pytest.skip(f"vLLM is not installed in {folder}: run make test-servers")
    return folder / "bin" / "python"


def vllm(port: int, model: Path, *options: str) -> VLlm:
    """A vLLM on loopback that serves `model`, a folder by `write_model`, under the name `MODEL`."""
    argv = (
        *(str(need_vllm()), "-m", "vllm.entrypoints.cli.main", "serve", str(model)),
        *("--host", LOOPBACK, "--port", str(port), "--load-format", "dummy", "--served-model-name", MODEL),
        *("--max-model-len", str(CONTEXT_TOKENS), "--max-num-seqs", "8", "--enforce-eager"),
        *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
        *("--enable-lora", "--max-lora-rank", str(_RANK), "--lora-modules", f"{ADAPTER}={model / ADAPTER}"),
        # Else random weights fill JSON with white space up to the limit. It does not hold for forced calls: `short_calls`.
        *("--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}', *options),
    )
    env = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }
    return VLlm(port, Command("vllm", argv, partial(http_ok, port, "/health"), env=env, start_s=400.0), model)


def short_calls(model: Path) -> dict[str, int]:
    """A `logit_bias` with which random weights end forced calls soon: vLLM guides them by a grammar that allows any white space,
    whatever its `disable_any_whitespace` says, and any number of calls.
    """
    vocabulary = Tokenizer.from_file(str(model / "tokenizer.json")).get_vocab()
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    spaces = {byte_level.pre_tokenize_str(space)[0][0] for space in " \t\r\n"}
    white = {str(number): -100 for token, number in vocabulary.items() if set(token) <= spaces}
    return white | {str(vocabulary[_END]): 100}


def write_model(folder: Path) -> Path:
    """A model of 2 layers without weights, whose tokenizer is trained here."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=list(_SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    # Every id of the model's output layer has a token, whatever random weights choose.
    tokenizer.add_tokens([f" w{number}" for number in range(_VOCABULARY - tokenizer.get_vocab_size())])
    tokenizer.save(str(folder / "tokenizer.json"))
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": _END,
            "pad_token": "<|endoftext|>",
            "model_max_length": CONTEXT_TOKENS,
            "chat_template": _TEMPLATE,
        },
    )
    _write(
        folder / "config.json",
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": _HIDDEN,
            "intermediate_size": 256,
            "num_hidden_layers": _LAYERS,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "head_dim": 32,
            "vocab_size": _VOCABULARY,
            "max_position_embeddings": CONTEXT_TOKENS,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10_000.0,
            "hidden_act": "silu",
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "bos_token_id": None,
            "eos_token_id": 2,
            "pad_token_id": 0,
        },
    )
    _write_adapter(folder / ADAPTER)
    return folder


def _write_adapter(folder: Path) -> None:
    """A LoRA adapter of the model, in PEFT's layout, that changes its answers."""
    folder.mkdir(exist_ok=True)
    targets = ("q_proj", "v_proj")
    _write(
        folder / "adapter_config.json",
        {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "r": _RANK,
            "lora_alpha": 64,
            "target_modules": targets,
            "bias": "none",
        },
    )
    weights, tensors, header = random.Random(7), b"", dict[str, object]()
    for layer, target, side in product(range(_LAYERS), targets, "AB"):
        shape = (_RANK, _HIDDEN) if side == "A" else (_HIDDEN, _RANK)
        values = array("f", (weights.gauss(0, 1) for _ in range(_RANK * _HIDDEN))).tobytes()
        name = f"base_model.model.model.layers.{layer}.self_attn.{target}.lora_{side}.weight"
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": (len(tensors), len(tensors) + len(values))}
        tensors += values
    written = json.dumps(header).encode()  # safetensors' format: the header's length, the header, the tensors
    (folder / "adapter_model.safetensors").write_bytes(len(written).to_bytes(8, "little") + written + tensors)


def _write(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    write_model(Path(sys.argv[1]))
