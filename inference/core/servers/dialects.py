"""How OpenAI-compatible servers differ in what the gateway itself asks of them. Sources of every cell: vllm/entrypoints/openai of
vllm-project/vllm, python/sglang/srt/entrypoints/openai/protocol.py of sgl-project/sglang, tools/server/README.md of
ggml-org/llama.cpp, tensorrt_llm/serve/openai_protocol.py of NVIDIA/TensorRT-LLM, and
lib/llm/src/protocols/openai/{validate,common_ext}.rs of ai-dynamo/dynamo.
"""

from functools import cache
from types import MappingProxyType
from typing import Literal, NamedTuple

from inference.contract.stages import Operation
from inference.core.capabilities import ANYTHING, Capabilities

Priority = Literal["", "lower_first", "higher_first", "header"]


class Dialect(NamedTuple):
    """`health` and the paths of `count` begin at the server's root; an empty `health` means that the list of models is
    read instead, because the server's own health says nothing about its models. `metrics` is its usual page; a hosted API has
    none.
    """

    name: str
    title: str  # for people
    health: str = ""
    metrics: str = "/metrics"
    tokenize: str = ""  # takes messages, answers `count`
    input_tokens: str = ""  # takes a chat, answers `input_tokens`
    priority: Priority = ""
    salts_prefixes: bool = False  # by `cache_salt` of a request
    blames_client_for_all: bool = False


VLLM = Dialect(
    "vllm",
    "vLLM",
    health="/health",
    tokenize="/tokenize",
    priority="lower_first",
    salts_prefixes=True,
)
SGLANG = Dialect(
    "sglang",
    "SGLang",
    health="/ready",  # its /health makes a token, and takes a second or more
    tokenize="/tokenize",
    priority="higher_first",  # only where /get_server_info says that it is enabled
    salts_prefixes=True,
)
LLAMACPP = Dialect(
    "llamacpp",
    "llama.cpp",
    health="/health",
    input_tokens="/v1/chat/completions/input_tokens",
)
TRTLLM = Dialect(
    "trtllm",
    "trtllm-serve",
    health="/health",
    metrics="/prometheus/metrics",
    blames_client_for_all=True,
)
DYNAMO = Dialect(
    "dynamo",
    "Dynamo",
    tokenize="/tokenize",
    priority="header",
)
OTHER = Dialect("other", "the server", metrics="")
UNLISTED = Dialect("unlisted", "the server", metrics="")  # it has no list of models

DIALECTS = MappingProxyType(
    {dialect.name: dialect for dialect in (VLLM, SGLANG, LLAMACPP, TRTLLM, DYNAMO, OTHER, UNLISTED)}
)
"""By the names that `Pool.server` may have, besides `auto`."""


@cache
def offers(dialect: str, operations: frozenset[Operation]) -> Capabilities:
    """What a server of this kind does whose model is for `operations`. Servers that are alike share it, so that a pool sees at
    once that they are.
    """
    return ANYTHING._replace(server=DIALECTS[dialect].title, operations=operations)
