"""How OpenAI-compatible servers differ in what they take. Sources of every cell: vllm/entrypoints/openai of
vllm-project/vllm, python/sglang/srt/entrypoints/openai/protocol.py of sgl-project/sglang, tools/server/README.md of
ggml-org/llama.cpp, tensorrt_llm/serve/openai_protocol.py of NVIDIA/TensorRT-LLM, and
lib/llm/src/protocols/openai/{validate,common_ext}.rs of ai-dynamo/dynamo.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal, NamedTuple

from inference.core.capabilities import Capabilities, Handling
from inference.core.question import PARAMETERS, Operation

Priority = Literal["", "lower_first", "higher_first", "header"]


class Dialect(NamedTuple):
    """`health` and the paths of `count` begin at the server's root; an empty `health` means that the list of models is
    read instead, because the server's own health says nothing about its models. `metrics` is its usual page; a hosted API has
    none.
    """

    name: str
    title: str  # for people
    capabilities: Capabilities
    health: str = ""
    metrics: str = "/metrics"
    tokenize: str = ""  # takes messages, answers `count`
    input_tokens: str = ""  # takes a chat, answers `input_tokens`
    priority: Priority = ""
    reasoning_field: str = "reasoning_content"  # of an assistant's message in an earlier turn
    renamed: Mapping[str, str] = MappingProxyType({})  # parameters, by their OpenAI name
    blames_client_for_all: bool = False
    streams_logprobs_with_tools: bool = True
    default_text_tokens: int = 0  # of a text completion without a limit; 0 where it has no such default


def _capabilities(
    title: str,
    *,
    refused: tuple[str, ...] = (),
    dropped: tuple[str, ...] = (),
    translated: tuple[str, ...] = (),
) -> Capabilities:
    handling: dict[str, Handling] = dict.fromkeys(PARAMETERS, "forwarded")
    for names, value in ((refused, "refused"), (dropped, "dropped"), (translated, "translated")):
        handling |= dict.fromkeys(names, value)  # type: ignore[arg-type]
    return Capabilities(title, MappingProxyType(handling))


_LLAMACPP_NAMES = MappingProxyType({"repetition_penalty": "repeat_penalty"})
_SGLANG_NAMES = MappingProxyType({"include_stop_str_in_output": "no_stop_trim"})

VLLM = Dialect(
    "vllm",
    "vLLM",
    _capabilities("vLLM", refused=("suffix",)),
    health="/health",
    tokenize="/tokenize",
    priority="lower_first",
    reasoning_field="reasoning",
    default_text_tokens=16,
)
SGLANG = Dialect(
    "sglang",
    "SGLang",
    _capabilities(
        "SGLang",
        refused=("bad_words", "add_generation_prompt", "structured_outputs"),
        translated=tuple(_SGLANG_NAMES),
    ),
    health="/ready",  # its /health makes a token, and takes a second or more
    tokenize="/tokenize",
    priority="higher_first",  # only where /get_server_info says that it is enabled
    renamed=_SGLANG_NAMES,
    default_text_tokens=16,
)
LLAMACPP = Dialect(
    "llamacpp",
    "llama.cpp",
    _capabilities(
        "llama.cpp",
        refused=(
            *("suffix", "echo", "dimensions", "min_tokens", "stop_token_ids", "bad_words", "skip_special_tokens"),
            *("include_stop_str_in_output", "continue_final_message", "structured_outputs"),
        ),
        translated=tuple(_LLAMACPP_NAMES),
    ),
    health="/health",
    input_tokens="/v1/chat/completions/input_tokens",
    renamed=_LLAMACPP_NAMES,
    streams_logprobs_with_tools=False,
)
TRTLLM = Dialect(
    "trtllm",
    "trtllm-serve",
    _capabilities(
        "trtllm-serve",
        refused=("suffix", "dimensions", "bad_words", "continue_final_message", "structured_outputs"),
        dropped=("parallel_tool_calls",),
    ),
    health="/health",
    metrics="/prometheus/metrics",
    blames_client_for_all=True,
)
DYNAMO = Dialect(
    "dynamo",
    "Dynamo",
    _capabilities(
        "Dynamo",
        refused=(
            *("bad_words", "add_generation_prompt", "continue_final_message", "structured_outputs"),
            "skip_special_tokens",
        ),
    ),
    tokenize="/tokenize",
    priority="header",
)
OTHER = Dialect("other", "the server", _capabilities("the server"), metrics="")

DIALECTS = MappingProxyType({dialect.name: dialect for dialect in (VLLM, SGLANG, LLAMACPP, TRTLLM, DYNAMO, OTHER)})
"""By the names that `Pool.server` may have, besides `auto`."""


@cache
def offers(dialect: str, operations: frozenset[Operation]) -> Capabilities:
    """What a server of this kind does whose model is for `operations`. Servers that are alike share it, so that a pool sees at
    once that they are.
    """
    return DIALECTS[dialect].capabilities._replace(operations=operations)
