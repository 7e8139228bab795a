"""What may be chosen for a field of the snapshot, with the words of the forms. The values are those of its schema."""

from typing import get_args

from inference.contract import snapshot

_WORDS = {
    "triton": "Triton, over gRPC",
    "openai": "OpenAI's API (vLLM, SGLang, llama.cpp, trtllm-serve, Dynamo, a hosted one)",
    "weir": "Weir's own tensors, as the demo models have",
    "auto": "Found out by the gateway",
    "vllm": "vLLM",
    "trtllm_ensemble": "TensorRT-LLM, ensemble",
    "trtllm_bls": "TensorRT-LLM, BLS",
    "trtllm_llmapi": "TensorRT-LLM, LLM API",
    "mapping": "Other tensors, named in the mapping",
    "sglang": "SGLang",
    "llamacpp": "llama.cpp",
    "trtllm": "trtllm-serve",
    "dynamo": "Dynamo",
    "other": "Another, or a hosted one",
    "unlisted": "A hosted one without a list of models",
    "": "Leave it to the server",
    "hermes": "Hermes, Qwen",
    "llama3_json": "Llama 3, JSON",
    "mistral": "Mistral",
    "think": "<think> … </think>",
    "pass": "Hand it on (a Triton refuses it)",
    "drop": "Leave it out, and name it in x-weir-dropped",
    "refuse": "Refuse the request",
}

Choices = list[tuple[str, str]]


def _choices(literal: object) -> Choices:
    return [(value, _WORDS.get(value, value)) for value in get_args(literal)]


def protocols() -> Choices:
    return _choices(snapshot.Protocol)


def signatures() -> Choices:
    return _choices(snapshot.Signature)


def servers() -> Choices:
    return _choices(snapshot.Server)


def templates() -> Choices:
    return [("auto", "The tokenizer's, or ChatML where it has none"), ("chatml", "ChatML")]


def tool_parsers() -> Choices:
    return _choices(snapshot.ToolParser)


def reasoning_parsers() -> Choices:
    return _choices(snapshot.ReasoningParser)


def reasoning_fields() -> Choices:
    return _choices(snapshot.ReasoningField)


def unknown_parameters() -> Choices:
    return _choices(snapshot.UnknownParameters)
