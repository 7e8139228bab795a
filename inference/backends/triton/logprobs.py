"""The log probabilities of vLLM's Triton backend in OpenAI's shape."""

from typing import Any

import msgspec

from inference.contract.stages import Operation


class _Logprob(msgspec.Struct):
    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


# Per token of the answer, its candidates by token id. The first is the token itself (vllm_backend:src/utils/request.py,
# and vllm/v1/engine/logprobs.py for the order).
_decoder = msgspec.json.Decoder(list[dict[str, _Logprob]] | None)
_NO_CHANCE = -9999.0  # what OpenAI's API has for a token without a probability: JSON has no -Infinity


def convert(raw: bytes, operation: Operation, top: int, offset: int) -> bytes:
    """The value of `logprobs` in a choice of a chunk; empty where there are none. `top` is how many candidates the client
    wants, and `offset` the characters of the text before. Raises msgspec.DecodeError.
    """
    tokens = _decoder.decode(raw)
    if not tokens:
        return b""
    return msgspec.json.encode(_chat(tokens, top) if operation == "chat" else _completion(tokens, top, offset))


def _chat(tokens: list[dict[str, _Logprob]], top: int) -> dict[str, Any]:
    content = []
    for candidates in tokens:
        items = [_item(candidate) for candidate in candidates.values()]
        ranked = sorted(items, key=lambda item: -item["logprob"])[:top]
        content.append({**items[0], "top_logprobs": ranked})
    return {"content": content, "refusal": None}


def _completion(tokens: list[dict[str, _Logprob]], top: int, offset: int) -> dict[str, Any]:
    chosen = [next(iter(candidates.values())) for candidates in tokens]
    offsets = []
    for candidate in chosen:
        offsets.append(offset)
        offset += len(candidate.decoded_token or "")
    return {
        "tokens": [candidate.decoded_token or "" for candidate in chosen],
        "token_logprobs": [_finite(candidate.logprob) for candidate in chosen],
        "top_logprobs": [
            {candidate.decoded_token or "": _finite(candidate.logprob) for candidate in candidates.values()}
            for candidates in tokens
        ]
        if top
        else None,
        "text_offset": offsets,
    }


def _item(candidate: _Logprob) -> dict[str, Any]:
    token = candidate.decoded_token or ""
    return {"token": token, "logprob": _finite(candidate.logprob), "bytes": list(token.encode("utf-8", "replace"))}


def _finite(logprob: float) -> float:
    return max(logprob, _NO_CHANCE)
