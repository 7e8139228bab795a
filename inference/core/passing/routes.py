"""The URLs beside OpenAI's and Anthropic's that servers with OpenAI's API have, and that are handed on to them."""

from types import MappingProxyType
from typing import NamedTuple

from inference.contract.lane import INPUT_TOKENS
from inference.contract.stages import Operation


class Route(NamedTuple):
    """`prompt` are the members of a body that hold texts for the model. The body is JSON, or a form (multipart/form-data)."""

    operation: Operation
    prompt: tuple[str, ...] = ()
    is_form: bool = False


_RERANK = Route("rerank", ("query", "documents", "texts"))
_SCORE = Route("score", ("queries", "documents", "items", "text_1", "text_2", "data_1", "data_2"))
_SPEECH = Route("transcription", ("prompt",), is_form=True)

ROUTES = MappingProxyType(
    {
        "/v1/rerank": _RERANK,
        "/rerank": _RERANK,
        "/v1/score": _SCORE,
        "/score": _SCORE,
        "/classify": Route("classify", ("messages", "input")),
        "/tokenize": Route("tokenize"),
        "/detokenize": Route("detokenize"),
        "/v1/messages/count_tokens": Route("tokenize"),
        INPUT_TOKENS: Route("tokenize"),
        "/v1/audio/transcriptions": _SPEECH,
        "/v1/audio/translations": _SPEECH,
    }
)
"""As vLLM (vllm/entrypoints/{pooling,serve}), SGLang (python/sglang/srt/entrypoints/http_server.py), llama.cpp and TEI have them."""
_OF_OTHERS = ("system", "instructions", "messages", "prompt", "input")
"""The members with the prompt of the other URLs, in the order in which templates lay it out."""


def prompt_of(path: str) -> tuple[str, ...]:
    """The members of a body with the prompt."""
    route = ROUTES.get(path)
    return _OF_OTHERS if route is None else route.prompt
