"""The inputs of a request for embeddings, each of which has an answer of its own: what a server makes of one does not depend on the
others beside it.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from inference.contract.stages import Operation
from inference.core.openai.checks import MAX_INPUTS

_OF_EACH = frozenset(
    (
        *("model", "user", "dimensions", "encoding_format", "truncate_prompt_tokens", "truncation_side"),
        *("add_special_tokens", "normalize", "embed_dtype", "endianness", "priority", "safety_identifier"),
    )
)
"""What is known to change the answer for each input by itself, if at all: OpenAI's parameters, and those of
vllm/entrypoints/pooling/embed/protocol.py. With another one the answers may depend on each other, as with `late_chunking` of Jina's API.
"""
_encode = msgspec.msgpack.Encoder().encode


class Inputs(NamedTuple):
    """`digests` are those of the inputs, in their order; `rest` is the request without them."""

    digests: tuple[bytes, ...]
    rest: dict[str, Any]


def inputs_of(operation: Operation, document: Mapping[str, Any]) -> Inputs | None:
    """None where it has but one, or they may depend on each other, or one of them is no text and no list of token ids.

    Rankings and scores are not taken apart. A listwise model, such as Jina's reranker v3, weighs the documents against each other, and a
    request does not say which kind its model is; their answers are sorted, cut at `top_n`, and count the tokens of all together.
    """
    given = document.get("input")
    if operation != "embeddings" or not isinstance(given, list) or not 1 < len(given) <= MAX_INPUTS:
        return None
    if not all(
        isinstance(it, str) or (isinstance(it, list) and it and all(type(number) is int for number in it))
        for it in given
    ):
        return None
    rest = {name: value for name, value in document.items() if name != "input" and value is not None}
    if not rest.keys() <= _OF_EACH or any(isinstance(it, list | dict) for it in rest.values()):
        return None
    try:
        _encode(rest)
        digests = tuple([blake2b(_encode(it), digest_size=32).digest() for it in given])
    except (UnicodeEncodeError, OverflowError):  # half a surrogate pair, or a number beyond 64 bits: these have no keys
        return None
    return Inputs(digests, rest)
