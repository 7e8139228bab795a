"""Says in words which server a replica is, as a gateway found out."""

from collections.abc import Mapping
from typing import Any

NAMES = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llamacpp": "llama.cpp",
    "trtllm": "trtllm-serve",
    "dynamo": "Dynamo",
    "tgi": "TGI",
    "triton": "Triton",
    "other": "another server",
    "unlisted": "a server without a list of models",
}
SIGNATURES = {
    "weir": "Weir's tensors",
    "vllm": "vLLM backend",
    "trtllm_ensemble": "TensorRT-LLM ensemble",
    "trtllm_bls": "TensorRT-LLM BLS",
    "trtllm_llmapi": "TensorRT-LLM LLM API",
    "mapping": "tensors of the mapping",
}
MAX_MODELS = 3


def describe(about: Mapping[str, Any]) -> str:
    """Such as "vLLM 0.32.0, with tiny, 2,048 tokens of context". Empty where nothing was found out."""
    kind = about.get("kind") or ""
    if not kind:
        return ""
    parts = [" ".join(filter(None, (NAMES.get(kind, kind), about.get("version"))))]
    if signature := about.get("signature"):
        parts.append(SIGNATURES.get(signature, signature))
    if models := about.get("models"):
        more = len(models) - MAX_MODELS
        parts.append(f"with {', '.join(models[:MAX_MODELS])}{f' and {more} more' if more > 0 else ''}")
    if context := about.get("context_length"):
        parts.append(f"{context:,} tokens of context")
    if warming := about.get("warming"):
        parts.append(warming)
    return ", ".join(parts)
