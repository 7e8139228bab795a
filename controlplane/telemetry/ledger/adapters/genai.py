"""Reads spans of OpenTelemetry's GenAI conventions, all three generations, which differ only in the names of token counts.

A client's inference call is `model` where there are no spans of the server inside it. Otherwise it is `network` around them. One of kind
INTERNAL, as some SDKs make them (Vercel's AI SDK, Logfire), is such a call unless a client's lies beneath it. Spans of agents, tools and
workflows belong to the application and have no stage.
"""

from controlplane.telemetry.core.spans import CLIENT, INTERNAL, SERVER, Span
from controlplane.telemetry.ledger.attributes import seconds_as_ns, text
from controlplane.telemetry.ledger.reading import Entry, FirstToken, Node, Reading

_INFERENCE = frozenset({"chat", "text_completion", "generate_content", "embeddings"})
_MARKS = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.system", "gen_ai.request.model")


def read(span: Span) -> Reading | None:
    attributes = span.attributes
    if not any(mark in attributes for mark in _MARKS):
        return None
    operation = text(attributes, "gen_ai.operation.name")
    inference = operation in _INFERENCE if operation else bool(text(attributes, "gen_ai.request.model"))
    if span.kind == SERVER:
        return _SERVER if inference else _AGENT_SERVER
    if span.kind == CLIENT:
        return _CALL if inference else _REMOTE
    return _LOCAL if inference and span.kind <= INTERNAL else _PLAIN


def server_first_token(node: Node) -> FirstToken | None:
    """Definition `otel-server`: queue and prefill, as the server reports them."""
    ns = seconds_as_ns(node.span.attributes, "gen_ai.server.time_to_first_token", "gen_ai.response.time_to_first_chunk")
    return None if ns is None else FirstToken(ns, "otel-server", node.start + ns)


def client_first_token(node: Node) -> FirstToken | None:
    """Definition `client`: until the client received the first chunk, network included."""
    ns = seconds_as_ns(node.span.attributes, "gen_ai.response.time_to_first_chunk")
    return None if ns is None else FirstToken(ns, "client", node.start + ns)


_SERVER = Reading("genai", Entry.SERVER, first_token=server_first_token)
_AGENT_SERVER = Reading("genai", Entry.HTTP)
_CALL = Reading("genai", Entry.CALL, stage="model", call=True, first_token=client_first_token)
_LOCAL = _CALL._replace(entry=Entry.LOCAL)
_REMOTE = Reading("genai", stage="network", first_token=client_first_token)
_PLAIN = Reading("genai")
