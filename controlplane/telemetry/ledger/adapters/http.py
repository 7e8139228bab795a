"""Reads spans of HTTP servers and clients by OpenTelemetry's conventions, old (`http.method`, `http.target`, `http.url`) and stable.

The path tells whether a call is an inference. A request enters at a server of inferences. It enters at any other HTTP server only where
no span beneath serves or calls a model, so that an agent's own endpoint does not swallow the calls it makes, and never where the server
only reads (GET and its like): those are pages, health probes and scrapes.
"""

from controlplane.telemetry.core.spans import CLIENT, SERVER, Span
from controlplane.telemetry.ledger.adapters.genai import client_first_token, server_first_token
from controlplane.telemetry.ledger.attributes import Attributes, text
from controlplane.telemetry.ledger.reading import Entry, Reading

_PATHS = ("http.route", "url.path", "http.target", "url.full", "http.url")
_OPERATIONS = (
    ("/chat/completions", "chat"),
    ("/completions", "text_completion"),
    ("/embeddings", "embeddings"),
    ("/v1/messages", "chat"),
    ("/v1/responses", "chat"),
)
"""Endings of the inference paths of OpenAI-compatible servers and Anthropic, with the operation of each."""
_KSERVE = "/v2/models/"
_READS = frozenset({"GET", "HEAD", "OPTIONS"})


def operation(attributes: Attributes) -> str | None:
    """The operation of an inference by its path; None for any other call."""
    for key in _PATHS:
        path = text(attributes, key).partition("?")[0].rstrip("/")
        for ending, name in _OPERATIONS:
            if path.endswith(ending):
                return name
        if _KSERVE in path and path.endswith(("/infer", "/generate", "/generate_stream")):
            return path.rpartition("/")[2].removesuffix("_stream")
    return None


def read(span: Span) -> Reading | None:
    attributes = span.attributes
    if "http.request.method" not in attributes and "http.method" not in attributes:
        return None
    if span.kind == SERVER:
        if operation(attributes):
            return _INFERENCE_SERVER
        method = text(attributes, "http.request.method", "http.method")
        return _PLAIN if method.upper() in _READS else _SERVER
    if span.kind == CLIENT:
        return _INFERENCE_CLIENT if operation(attributes) else _CLIENT
    return _PLAIN


_INFERENCE_SERVER = Reading("http", Entry.SERVER, first_token=server_first_token)
_SERVER = Reading("http", Entry.HTTP)
_INFERENCE_CLIENT = Reading("http", Entry.CALL, stage="model", call=True, first_token=client_first_token)
_CLIENT = Reading("http", stage="network")
_PLAIN = Reading("http")
