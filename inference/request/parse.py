"""Reads a request's body: what the gateway has to know of it, and the question that it makes for servers that do not read it by
themselves.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import msgspec

from inference.contract.snapshot import Model, UnknownParameters
from inference.contract.stages import Operation
from inference.core import normalise
from inference.core.openai import checks, errors, responses_schema
from inference.core.openai.responses_writer import ResponsesWriter
from inference.core.openai.schema import ChatRequest, CompletionRequest, EmbeddingRequest
from inference.core.openai.writers import ChatWriter, CompletionWriter, EmbeddingWriter, Format, Writer
from inference.core.passing.request import Passed, kept_to, read, read_form
from inference.core.passing.routes import ROUTES
from inference.core.question import Question

MakeWriter = Callable[[str, int, Model], Writer]


class Understood(NamedTuple):
    """A body that was read to its last member. `dropped` has no effect here. `question` makes the question for a model;
    `writer` needs the answer's identity, which is unique, and the time in seconds since the epoch.
    """

    dropped: list[str]
    question: Callable[[Model], Question]
    writer: MakeWriter


class Request:
    """One request in both its forms. The second is made once it is wanted."""

    __slots__ = ("_question", "_understood", "endpoint", "passed")

    def __init__(self, passed: Passed, endpoint: "Endpoint") -> None:
        self.passed, self.endpoint = passed, endpoint
        self._understood: Understood | None = None
        self._question: Question | None = None

    def question(self, model: Model, unknown: UnknownParameters = "pass") -> Question:
        """What it asks of the model, which is its own. Raises ApiError, also for a parameter that nothing is known of, unless
        these are dropped.
        """
        if self._question is None:
            if unknown == "drop":
                known, dropped = kept_to(self.passed, self.endpoint.decodes)
                understood = self.endpoint.understand(known.rendered({}))
                understood.dropped[:0] = dropped
            else:
                understood = self.endpoint.understand(self.passed.body)
            self._understood = understood
            self._question = understood.question(model)
        return self._question

    @property
    def understood(self) -> Understood:
        """Once there is a question."""
        assert self._understood is not None
        return self._understood


class Endpoint(NamedTuple):
    """A URL that is answered by a model. `understand` takes a body with the members of `decodes`, and raises ApiError. `official`
    are those that the API has beside them. Of a form it has to be said what parts it: its content type.
    """

    operation: Operation
    understand: Callable[[bytes], Understood]
    decodes: frozenset[str] = frozenset()
    official: frozenset[str] = frozenset()
    is_form: bool = False

    def parse(self, path: str, body: bytes, content_type: bytes = b"") -> Request:
        """Raises ApiError."""
        if self.is_form:
            return Request(read_form(path, self.operation, body, content_type.decode("latin-1")), self)
        return Request(read(path, self.operation, body), self)


def _chat(body: bytes) -> Understood:
    request, plain = checks.decode_chat(body)

    def question(model: Model) -> Question:
        return normalise.chat(request, plain, model.max_output_tokens)

    return Understood([] if plain else checks.dropped(request), question, partial(_chunks, ChatWriter, request))


def _completion(body: bytes) -> Understood:
    request = checks.decode_completion(body)

    def question(model: Model) -> Question:
        return normalise.completion(request, model.max_output_tokens)

    return Understood(checks.dropped(request), question, partial(_chunks, CompletionWriter, request))


def _embedding(body: bytes) -> Understood:
    request = checks.decode_embedding(body)

    def writer(identity: str, created: int, model: Model) -> Writer:
        return EmbeddingWriter(model.name, request.encoding_format or "float")

    return Understood(checks.dropped(request), lambda _: normalise.embedding(request), writer)


def _responses(body: bytes) -> Understood:
    request, chat, dropped = responses_schema.read(body)

    def question(model: Model) -> Question:
        return normalise.chat(chat, False, model.max_output_tokens)

    def writer(identity: str, created: int, model: Model) -> Writer:
        return ResponsesWriter(identity, created, model.name, request)

    return Understood(dropped, question, writer)


def _chunks(
    kind: type[ChatWriter], request: ChatRequest | CompletionRequest, identity: str, created: int, model: Model
) -> Writer:
    choices = 1 if request.n is None else request.n
    form = Format(request.include_usage, request.continuous_usage, choices, model.reasoning_field)
    return kind(identity, created, model.name, form)


def _for_servers_alone(body: bytes) -> Understood:
    raise errors.unsupported("model", "its servers have no such route. Name a model of a server with OpenAI's API")


def _members(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(kind.__struct_fields__)


_NEWER = frozenset(("moderation", "prompt_cache_options"))
_NEWER_IN_RESPONSES = _NEWER | {"access_programs", "background_options", "image"}
_MESSAGES = frozenset(
    (
        "model",
        "messages",
        "max_tokens",
        "system",
        "stream",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "thinking",
    )
) | {"tools", "tool_choice", "metadata", "service_tier", "container", "cache_control", "inference_geo", "output_config"}

ENDPOINTS = {
    path: Endpoint(route.operation, _for_servers_alone, is_form=route.is_form) for path, route in ROUTES.items()
} | {
    "/v1/messages": Endpoint("chat", _for_servers_alone, official=_MESSAGES),
    "/v1/chat/completions": Endpoint("chat", _chat, _members(ChatRequest), _NEWER),
    "/v1/completions": Endpoint("text_completion", _completion, _members(CompletionRequest)),
    "/v1/embeddings": Endpoint("embeddings", _embedding, _members(EmbeddingRequest)),
    "/v1/responses": Endpoint("chat", _responses, _members(responses_schema.ResponsesRequest), _NEWER_IN_RESPONSES),
}
"""By the URL's path."""
