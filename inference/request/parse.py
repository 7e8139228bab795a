"""Reads a request's body: the question that it makes of it, and how its answer is written."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from inference.contract.snapshot import Model
from inference.core import normalise
from inference.core.openai import checks, responses_schema
from inference.core.openai.embedding_writer import EmbeddingWriter
from inference.core.openai.responses_writer import ResponsesWriter
from inference.core.openai.schema import ChatRequest, CompletionRequest
from inference.core.openai.writers import ChatWriter, CompletionWriter, Format, Writer
from inference.core.question import Operation, Question


class Parsed(NamedTuple):
    """`dropped` has no effect here. `question` makes the question for a model; `writer` needs the answer's identity, which is
    unique, and the time in seconds since the epoch.
    """

    model: str
    streams: bool
    dropped: list[str]
    question: Callable[[Model], Question]
    writer: Callable[[str, int, Model], Writer]


class Endpoint(NamedTuple):
    """A URL that is answered by a model. `parse` takes the body, and raises ApiError."""

    operation: Operation
    parse: Callable[[bytes], Parsed]


def _chat(body: bytes) -> Parsed:
    request = checks.decode_chat(body)

    def question(model: Model) -> Question:
        return normalise.chat(request, model.max_output_tokens)

    return Parsed(
        request.model, request.streams, checks.dropped(request), question, partial(_chunks, ChatWriter, request)
    )


def _completion(body: bytes) -> Parsed:
    request = checks.decode_completion(body)

    def question(model: Model) -> Question:
        return normalise.completion(request, model.max_output_tokens)

    writer = partial(_chunks, CompletionWriter, request)
    return Parsed(request.model, request.streams, checks.dropped(request), question, writer)


def _embedding(body: bytes) -> Parsed:
    request = checks.decode_embedding(body)

    def writer(identity: str, created: int, model: Model) -> Writer:
        return EmbeddingWriter(model.name, request.encoding_format or "float")

    return Parsed(request.model, False, checks.dropped(request), lambda _: normalise.embedding(request), writer)


def _responses(body: bytes) -> Parsed:
    request, chat, dropped = responses_schema.read(body)

    def question(model: Model) -> Question:
        return normalise.chat(chat, model.max_output_tokens)

    def writer(identity: str, created: int, model: Model) -> Writer:
        return ResponsesWriter(identity, created, model.name, request)

    return Parsed(request.model, bool(request.stream), dropped, question, writer)


def _chunks(
    kind: type[ChatWriter], request: ChatRequest | CompletionRequest, identity: str, created: int, model: Model
) -> Writer:
    choices = 1 if request.n is None else request.n
    form = Format(request.include_usage, request.continuous_usage, choices, model.reasoning_field)
    return kind(identity, created, model.name, form)


ENDPOINTS = {
    "/v1/chat/completions": Endpoint("chat", _chat),
    "/v1/completions": Endpoint("text_completion", _completion),
    "/v1/embeddings": Endpoint("embeddings", _embedding),
    "/v1/responses": Endpoint("chat", _responses),
}
"""By the URL's path."""
